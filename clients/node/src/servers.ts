/** The one server of a client, or the nodes of its cluster. */

import { type Address, type Library, textOf } from "./library.ts";
import { type Common, Server } from "./server.ts";
import { Fault } from "./state/fault.ts";
import { now } from "./time.ts";

const SLOTS = 16_384;

/** CRC16 of the key, or of its part in braces, as Redis Cluster takes it (XMODEM). */
export function slotOf(key: string): number {
  const tag = /^[^{]*\{([^}]+)\}/.exec(key)?.[1];
  let crc = 0;
  for (const byte of Buffer.from(tag ?? key)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc % SLOTS;
}

export class Servers {
  /** The server, unless it is a cluster. */
  readonly only: Server | undefined;
  readonly #common: Common;
  readonly #cluster: Library["cluster"];
  readonly #all = new Map<string, Server>();
  #slots: (Server | undefined)[] = [];
  #reading: Promise<Fault | undefined> | undefined;

  constructor(common: Common) {
    this.#common = common;
    this.#cluster = common.library.cluster;
    if (this.#cluster) return;
    this.only = new Server(common);
    this.#all.set("", this.only);
  }

  get all(): Server[] {
    return [...this.#all.values()];
  }

  /** The server that has the key. */
  async find(key: string): Promise<Server | Fault> {
    if (this.only) return this.only;
    const slot = slotOf(key);
    const fault = this.#slots[slot] ? undefined : await this.refresh();
    return this.#slots[slot] ?? fault ?? Fault.none("no node of the cluster serves the key", false);
  }

  /** Where a reply leads: to another node of the cluster. */
  redirected(from: Server | undefined, reply: unknown): Server | undefined {
    if (!from || !this.#cluster || !(reply instanceof Fault && reply.redirects)) return undefined;
    const [word, slot, address = ""] = reply.text.split(" ");
    const colon = address.lastIndexOf(":");
    if (colon < 0) return undefined;
    const to = this.#at({ host: address.slice(0, colon) || from.host, port: Number(address.slice(colon + 1)) });
    void this.refresh();
    if (word === "MOVED") this.#slots[Number(slot)] = to;
    return to;
  }

  #at(address: Address): Server {
    const seen = this.#cluster?.seen(address) ?? address;
    let server = this.#all.get(textOf(seen));
    if (!server) this.#all.set(textOf(seen), (server = new Server(this.#common, seen)));
    return server;
  }

  /** Reads the map of the cluster again, once for all who want it now. */
  refresh(): Promise<Fault | undefined> {
    this.#reading ??= this.#read().finally(() => { this.#reading = undefined; });
    return this.#reading;
  }

  /** Asks all nodes that are known at once: one that hangs holds up nothing. */
  async #read(): Promise<Fault | undefined> {
    const { replyTimeout: limit } = this.#common.settings;
    for (const end = now() + limit; ;) {
      for (const seed of this.#cluster?.seeds() ?? []) this.#at(seed);
      if (this.#all.size > 0 || now() >= end) break;
      await new Promise((resolve) => { setTimeout(resolve, 10); }); // the user's client is about to learn its first nodes
    }
    const ask = async (server: Server): Promise<void> => {
      const reply = await server.call(limit, ["CLUSTER", "SLOTS"]);
      if (!Array.isArray(reply)) throw reply;
      const slots = new Array<Server | undefined>(SLOTS);
      for (const [first, last, [host, port]] of reply as [number, number, [string | null, number]][]) {
        slots.fill(this.#at({ host: host || server.host, port: Number(port) }), Number(first), Number(last) + 1);
      }
      this.#slots = slots;
    };
    try {
      await Promise.any(this.all.map(ask));
      return undefined;
    } catch (error) {
      const faults = error instanceof AggregateError ? error.errors : [];
      return faults.find((it): it is Fault => it instanceof Fault) ?? Fault.none("the cluster's client knows no node", false);
    }
  }
}
