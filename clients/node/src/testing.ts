/**
 * A stand-in for unit tests: a server that has its locks in memory, in place of a client.
 *
 * @packageDocumentation
 */

import type { Connection } from "./library.ts";
import type { Words } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";

/** A grant, or a wait, which has no token. */
interface Call {
  readonly key: string;
  readonly owner: string;
  limit: number;
  token: number;
  holds: number;
  lease: number;
  session: number;
  /** Ends a wait, or a fixed lease. */
  timer: NodeJS.Timeout | undefined;
}

interface Session {
  number: number;
  events: unknown[][];
  /** Answers the POLL that waits. */
  wake: (() => void) | undefined;
}

type Options = ReadonlyMap<string, number>;

/** The options of a command: words, and words with a number. */
function optionsOf(words: Words): Map<string, number> {
  const options = new Map<string, number>();
  words.forEach((word, i) => {
    if (typeof word === "string") options.set(word, Number(words[i + 1] ?? 0));
  });
  return options;
}

const grantOf = ({ token, owner, holds, lease, limit }: Call): unknown[] => [token, owner, holds, lease, limit];

/**
 * A server in memory. Make one for each test, and give it to `Locks` in place of a client.
 *
 * Waiters get the lock first come, first served. Tokens rise, and fixed leases end by time. Deadlocks are not found.
 *
 * @example
 * ```ts
 * import { Locks } from "redis-lock-client";
 * import { TestServer } from "redis-lock-client/testing";
 *
 * const server = new TestServer();
 * const locks = new Locks(server);
 * const grant = await locks.lock("lock:orders:42").acquire();
 * console.log(server.holders("lock:orders:42").length, server.waiters("lock:orders:42").length); // 1 0
 * server.lose("lock:orders:42"); // what does the program do now?
 * await locks.close();
 * ```
 */
export class TestServer {
  /** How errors name it. */
  readonly address = "the server in memory";
  /** Begins no key. */
  readonly prefix = "";
  /** In their order; of each key the holders, then the waiters. */
  #calls: Call[] = [];
  readonly #sessions = new Map<number, Session>();
  #token = 0;

  /** The owners that hold the lock. The key has the prefix of the locks. */
  holders(key: string): string[] {
    return this.#of(key).filter((call) => call.token > 0).map((call) => call.owner);
  }

  /** The owners that wait for the lock, in their order. */
  waiters(key: string): string[] {
    return this.#of(key).filter((call) => call.token === 0).map((call) => call.owner);
  }

  /**
   * Ends all grants of the lock, as an operator's DEL does: its holders are notified, and the first waiter gets it. False if
   * nobody holds it.
   *
   * @param reason - Is the `reason` of the LockLost.
   */
  lose(key: string, reason = "deleted"): boolean {
    const lost = this.#of(key).filter((call) => call.token > 0);
    for (const call of lost) {
      this.#remove(call);
      this.#event(call, "lost", call.token, reason);
    }
    this.#serve(key);
    return lost.length > 0;
  }

  /** @internal As a `Library`, for the locks. */
  open(): Connection {
    return { ready: Promise.resolve(), close: () => {}, send: (words) => this.#command(words) };
  }

  async #command(words: Words): Promise<unknown> {
    await Promise.resolve(); // no reply comes before its call has returned
    const [command, first, second] = words.map(String) as [string, string, string];
    const options = optionsOf(words.slice(command === "LOCK.SESSION" ? 2 : 3));
    switch (`${command} ${command === "LOCK.SESSION" ? first : ""}`.trim()) {
      case "LOCK.ACQUIRE": return this.#acquire(first, second, options);
      case "LOCK.RELEASE": return this.#release(first, second, options);
      case "LOCK.RENEW": return this.#renew(first, second, options);
      case "LOCK.FENCE": return this.#fence(first, Number(second));
      case "LOCK.SESSION OPEN": return this.#open();
      case "LOCK.SESSION POLL": return this.#poll(Number(second), options.get("BLOCK") ?? 0);
      case "LOCK.SESSION CLOSE": return this.#close(Number(second));
      default: throw Fault.reply(`ERR unknown command '${command}'`);
    }
  }

  #of(key: string): Call[] {
    return this.#calls.filter((call) => call.key === key);
  }

  #remove(call: Call): void {
    clearTimeout(call.timer);
    this.#calls = this.#calls.filter((it) => it !== call);
  }

  #acquire(key: string, owner: string, options: Options): unknown {
    const session = options.get("SESSION") ?? 0;
    if (session && !this.#sessions.has(session)) throw Fault.reply("NOSESSION no such session");
    const mine = this.#of(key).find((call) => call.owner === owner);
    if (options.has("TOKEN") || (mine && mine.token > 0)) {
      const held = this.#held(key, owner, options);
      held.holds = Math.max(held.holds, options.get("HOLDS") ?? 1);
      return grantOf(held);
    }
    const limit = options.has("SHARED") ? 0 : (options.get("LIMIT") ?? 1);
    const call = mine ?? { key, owner, limit, token: 0, holds: 1, lease: options.get("PX") ?? 30_000, session, timer: undefined };
    if (!mine) this.#calls.push(call);
    this.#serve(key, call);
    if (call.token) return grantOf(call);
    const wait = options.get("QUEUE");
    if (wait === undefined) {
      this.#remove(call);
      return null;
    }
    if (wait > 0 && !mine) call.timer = setTimeout(() => this.#end(call, "timeout"), wait).unref();
    return this.waiters(key).indexOf(owner);
  }

  /** Grants the lock to those at the front who have room. `asking` gets no event: its reply is the grant. */
  #serve(key: string, asking?: Call): void {
    for (const call of this.#of(key)) {
      if (call.token) continue;
      const holders = this.#of(key).filter((it) => it.token > 0);
      if ([call, ...holders].some(({ limit }) => limit > 0 && holders.length + 1 > limit)) return;
      clearTimeout(call.timer);
      this.#token = Math.max(this.#token + 1, Date.now() * 1000);
      call.token = this.#token;
      if (call !== asking) this.#event(call, "granted", call.token, call.holds, call.lease, call.limit);
    }
  }

  /** A wait ends without a grant. */
  #end(call: Call, why: string): void {
    this.#remove(call);
    this.#event(call, "ended", why);
    this.#serve(call.key);
  }

  /** The grant that a command is about. */
  #held(key: string, owner: string, options: Options): Call {
    const call = this.#of(key).find((it) => it.owner === owner && it.token > 0);
    if (!call) throw Fault.reply(this.holders(key).length > 0 ? "NOTOWNER others hold it" : "NOTHELD nobody holds it");
    if (call.token !== (options.get("TOKEN") ?? call.token)) throw Fault.reply("FENCED it has another token");
    return call;
  }

  #release(key: string, owner: string, options: Options): number {
    const wait = options.has("TOKEN") ? undefined : this.#of(key).find((call) => call.owner === owner && call.token === 0);
    if (wait) {
      this.#end(wait, "cancelled");
      return 0;
    }
    const call = this.#held(key, owner, options);
    call.holds = options.has("ALL") ? 0 : Math.min(call.holds, options.get("HOLDS") ?? call.holds - 1);
    if (call.holds === 0) {
      this.#remove(call);
      if (options.get("SESSION") !== call.session) this.#event(call, "lost", call.token, "released");
      this.#serve(key);
    }
    return call.holds;
  }

  #renew(key: string, owner: string, options: Options): unknown {
    const call = this.#held(key, owner, options);
    const session = options.get("SESSION") ?? call.session;
    if (session && !this.#sessions.has(session)) throw Fault.reply("NOSESSION no such session");
    if (session !== call.session) this.#event(call, "taken", call.token, session);
    call.session = session;
    call.lease = options.get("PX") ?? call.lease;
    call.token = options.get("RAISE") ?? call.token;
    clearTimeout(call.timer);
    if (!session) call.timer = setTimeout(() => { this.#remove(call); this.#serve(key); }, call.lease).unref();
    return grantOf(call);
  }

  #fence(key: string, token: number): string {
    if (this.#of(key).some((call) => call.token === token)) return "OK";
    throw Fault.reply("FENCED no grant has this token");
  }

  #open(): number {
    const id = this.#sessions.size + 1 + Math.floor(Math.random() * 2 ** 40) * 1000;
    this.#sessions.set(id, { number: 0, events: [], wake: undefined });
    return id;
  }

  #event({ key, owner, session }: Call, kind: string, ...parts: unknown[]): void {
    const of = this.#sessions.get(session);
    if (!of) return;
    of.number += 1;
    of.events.push([of.number, kind, key, owner, ...parts]);
    of.wake?.();
  }

  async #poll(id: number, block: number): Promise<unknown> {
    const session = this.#sessions.get(id);
    if (session?.events.length === 0 && block > 0) {
      await new Promise<void>((resolve) => {
        session.wake = resolve;
        setTimeout(resolve, block).unref();
      });
      session.wake = undefined;
    }
    if (!session || !this.#sessions.has(id)) throw Fault.reply("NOSESSION the session has ended");
    const events = session.events.splice(0);
    return { "sure-ms": -1, grants: this.#calls.filter((call) => call.session === id && call.token > 0).length, events };
  }

  #close(id: number): number {
    const session = this.#sessions.get(id);
    if (!session) throw Fault.reply("NOSESSION no such session");
    this.#sessions.delete(id);
    session.wake?.();
    const ended = this.#calls.filter((call) => call.session === id);
    for (const call of ended) this.#remove(call);
    for (const { key } of ended) this.#serve(key);
    return ended.length;
  }
}
