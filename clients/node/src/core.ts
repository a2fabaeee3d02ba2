/** What all locks of one client have in common: the state, its server or the nodes of its cluster, and repeated calls. */

import { setTimeout as pause } from "node:timers/promises";
import { type Address, type Library, textOf } from "./library.ts";
import { type Settings, processName } from "./options.ts";
import { Server } from "./server.ts";
import type { Call, Terms, Words } from "./state/claim.ts";
import type { Release } from "./state/claims.ts";
import { Fault } from "./state/fault.ts";
import { State } from "./state/state.ts";
import { now, pauseAfter } from "./time.ts";

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

export class Core {
  /** The server, unless it is a cluster. */
  readonly only: Server | undefined;
  readonly #state: State;
  readonly #process: string;
  readonly #servers = new Map<string, Server>();
  #slots: (Server | undefined)[] = [];
  #reading: Promise<Fault | undefined> | undefined;
  #owners = 0;

  constructor(readonly library: Library, readonly settings: Settings) {
    this.#state = new State(settings.lease, settings.replyTimeout, library.cluster !== undefined);
    this.#process = processName(settings.service);
    if (!library.cluster) this.#servers.set("", (this.only = new Server(library, settings.replyTimeout)));
  }

  /** The owner of an acquire: by default one that nobody has had before, so that a late call meets only its own grant. */
  ownerFor({ task, adopted }: Terms): string {
    const known = adopted ? adopted.owner : task && this.#state.usableOwner(task);
    if (known) return known;
    this.#owners += 1;
    return [this.#process, this.#owners.toString(36)].join("-"); // not a rope, which libraries encode slowly
  }

  get state(): State {
    this.#state.at = Math.max(now(), this.#state.at + 1e-6);
    return this.#state;
  }

  get servers(): Server[] {
    return [...this.#servers.values()];
  }

  /** The server for the next call about a key: where the last reply leads, or else the one that has the key. */
  async route(key: string, last?: Server, reply?: unknown): Promise<Server | Fault> {
    if (this.only) return this.only;
    if (last && reply instanceof Fault && reply.redirects) {
      const [word, slot, address = ""] = reply.text.split(" ");
      const colon = address.lastIndexOf(":");
      const to = this.#at({ host: address.slice(0, colon) || (last.at?.host ?? ""), port: Number(address.slice(colon + 1)) });
      void this.#refresh();
      if (word === "MOVED") this.#slots[Number(slot)] = to;
      return to;
    }
    const slot = slotOf(key);
    const fault = this.#slots[slot] ? undefined : await this.#refresh();
    return this.#slots[slot] ?? fault ?? Fault.none("no node of the cluster serves the key", false);
  }

  /**
   * Sends a command about a key until it is answered, for two reply timeouts. Resolves with the last reply, and writes it
   * to the call with its server and time; the call may have had a reply already. The command is undefined while there is no
   * session for it.
   */
  async repeat(key: string, command: (server: Server) => Words | undefined, call: Partial<Call> = {},
    end = now() + 2 * this.settings.replyTimeout, only = this.only): Promise<unknown> {
    for (let tries = call.reply === undefined ? 0 : 1; ; tries += 1) {
      const { reply } = call;
      if (tries > 0) {
        const rest = pauseAfter(tries);
        if (!(reply instanceof Fault && reply.passing) || now() + rest >= end) return reply;
        if (key === "" && reply.word === "NOSESSION") return reply;
        call.wasOpen ||= reply.noReply;
        if (rest > 0) await pause(rest);
      }
      const to = only ?? await this.route(key, call.server as Server | undefined, reply);
      call.sent = now();
      if (to instanceof Fault) {
        call.reply = to;
        continue;
      }
      call.server = to;
      call.session = to.session;
      const words = call.sent < end ? command(to) : undefined;
      const last = Math.min(call.sent + this.settings.replyTimeout, end);
      call.reply = words ? await to.call(last, words, reply) : Fault.none("no session in time", false);
    }
  }

  /** Sends a release that is unfinished to where its key is. */
  async finish(release: Release, end?: number): Promise<void> {
    const reply = await this.repeat(String(release.words[1]), () => release.words, {}, end);
    this.state.finished(release, reply);
  }

  /** A server may have lost claims to other nodes of the cluster. */
  async relocate(server: Server): Promise<void> {
    const claims = this.state.claimsOn(server);
    await this.#refresh();
    for (const claim of claims) {
      const to = await this.route(claim.key);
      if (to instanceof Server && to !== server) this.state.relocate(claim);
    }
  }

  #at(address: Address): Server {
    const seen = this.library.cluster?.seen(address) ?? address;
    const name = textOf(seen);
    const server = this.#servers.get(name) ?? new Server(this.library, this.settings.replyTimeout, seen);
    this.#servers.set(name, server);
    return server;
  }

  /** Reads the map of the cluster again, once for all who want it now. */
  #refresh(): Promise<Fault | undefined> {
    this.#reading ??= this.#read().finally(() => { this.#reading = undefined; });
    return this.#reading;
  }

  /** Asks all nodes that are known at once: one that hangs holds up nothing. */
  async #read(): Promise<Fault | undefined> {
    const { replyTimeout: limit } = this.settings;
    for (const end = now() + limit; ;) {
      for (const seed of this.library.cluster?.seeds() ?? []) this.#at(seed);
      if (this.#servers.size > 0 || now() >= end) break;
      await pause(10); // the user's client is about to learn its first nodes
    }
    try {
      await Promise.any(this.servers.map(async (server) => {
        const reply = await server.call(now() + limit, ["CLUSTER", "SLOTS"]);
        if (!Array.isArray(reply)) throw reply;
        const slots = new Array<Server | undefined>(SLOTS);
        for (const [first, last, [host, port]] of reply as [number, number, [string | null, number]][]) {
          slots.fill(this.#at({ host: host || (server.at?.host ?? ""), port: Number(port) }), Number(first), Number(last) + 1);
        }
        this.#slots = slots;
      }));
      return undefined;
    } catch (error) {
      const [fault] = (error as AggregateError).errors;
      return fault instanceof Fault ? fault : Fault.none("the cluster's client knows no node", false);
    }
  }

  /** Ends all waits, releases all that is held, and closes the connections, within two reply timeouts. */
  async close(): Promise<void> {
    if (this.state.isClosed) return;
    const end = now() + 2 * this.settings.replyTimeout;
    const grants = this.state.close();
    const closed = new Set<number>();
    await Promise.all(this.servers.flatMap((server) => [...server.left.keys(), server.session].map(async (session) => {
      const reply = session && await this.repeat("", () => ["LOCK.SESSION", "CLOSE", session], {}, end, server);
      if (session && !(reply instanceof Fault)) closed.add(session);
    })));
    const left = grants.filter(({ session }) => !closed.has(session));
    await Promise.all(left.map((claim) => this.repeat(claim.key, () => claim.releaseCommand(), {}, end)));
    await Promise.all(this.servers.map((server) => server.close()));
  }
}
