/** Which server of a cluster serves a key. */

import type { Address, Driver } from "./driver.ts";
import { NoReply, ServerReply } from "./errors.ts";
import { Line } from "./line.ts";
import { Stop } from "./stop.ts";

const SLOTS = 16_384;

/** CRC16 of the key, or of its part in braces, as Redis Cluster takes it (XMODEM). */
export function slotOf(key: string): number {
  const tag = /^\{([^}]+)\}/.exec(key.slice(Math.max(0, key.indexOf("{"))))?.[1];
  let crc = 0;
  for (const byte of Buffer.from(tag ?? key)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc % SLOTS;
}

const nameOf = ({ host, port }: Address): string => `${host}:${port}`;

/** The map of a cluster, asked for when it is needed. A name `host:port` stands for a server. */
export class Slots {
  readonly #driver: Driver;
  readonly #ms: number;
  #servers: string[] = []; // by slot
  #addresses = new Map<string, Address>();
  #asking: Promise<void> | undefined;
  /** Servers that MOVED has named since the map was asked for. */
  #moved = new Map<number, string>();

  constructor(driver: Driver, ms: number) {
    this.#driver = driver;
    this.#ms = ms;
  }

  /** The name of the server of the key; undefined before the map is known. */
  serverOf(key: string): string | undefined {
    const slot = slotOf(key);
    return this.#moved.get(slot) ?? this.#servers[slot];
  }

  addressOf(name: string): Address | undefined {
    return this.#addresses.get(name);
  }

  /** What MOVED says. */
  moved(text: string): void {
    const [, slot, address = ""] = text.split(" ", 3);
    const colon = address.lastIndexOf(":");
    if (colon < 1) return;
    this.#moved.set(Number(slot), this.#seen({ host: address.slice(0, colon), port: Number(address.slice(colon + 1)) }));
  }

  /** Asks for the map anew, once for all who want it now. Rejects with ServerReply or NoReply. */
  refresh(): Promise<void> {
    this.#asking ??= this.#ask().finally(() => { this.#asking = undefined; });
    return this.#asking;
  }

  #seen(address: Address): string {
    const seen = this.#driver.cluster?.seen(address) ?? address;
    this.#addresses.set(nameOf(seen), seen);
    return nameOf(seen);
  }

  /** Asks all servers that are known at once: one that hangs holds up nothing. */
  async #ask(): Promise<void> {
    const seeds = (await this.#driver.cluster?.seeds(new Stop(), performance.now() + this.#ms)) ?? [];
    const known = [...new Set(this.#servers)].flatMap((name) => this.#addresses.get(name) ?? []);
    const all = new Map([...known, ...seeds]
      .map((address) => [nameOf(address), address]));
    const opened = new Set<Line>();
    let isOver = false;
    const ask = async (at: Address): Promise<unknown> => {
      const line = await Line.open(this.#driver, { name: "lock-map", ms: this.#ms, at });
      opened.add(line);
      if (isOver) line.close();
      return line.send(["CLUSTER", "SLOTS"]);
    };
    try {
      const [reply, from] = await Promise.any([...all.values()].map(async (at) => [await ask(at), at] as const));
      this.#take(reply, from);
    } catch (error) {
      const errors: unknown[] = error instanceof AggregateError ? error.errors : [error];
      throw errors.find((it) => it instanceof ServerReply) ?? errors[0] ?? new NoReply("no server of the cluster is known");
    } finally {
      isOver = true;
      for (const line of opened) line.close();
    }
  }

  #take(reply: unknown, from: Address): void {
    const servers: string[] = [];
    for (const range of reply as [number, number, [string | null, number], ...unknown[]][]) {
      const [first, last, [host, port]] = range;
      const name = this.#seen({ host: host || from.host, port: Number(port) });
      for (let slot = Number(first); slot <= Number(last); slot += 1) servers[slot] = name;
    }
    this.#servers = servers;
    this.#moved.clear();
  }
}
