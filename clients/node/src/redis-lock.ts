/**
 * Locks of redis-lock, on ioredis. Copy this file. Node 20.3 or later.
 *
 *     const locks = new Locks(new Redis(), "orders");        // one for the process
 *     await locks.withLock("lock:orders:42", { lease: 30_000, wait: 10_000 }, async (lock) => {
 *       // Claim the row, then read, then write under the claim: docs/fencing.md of redis-lock says why.
 *       const t = [lock.token];
 *       const claimed = await db.query("UPDATE orders SET fence = $1 WHERE id = 42 AND fence <= $1", t);
 *       if (claimed.rowCount === 0) throw new LockLost("a newer holder has claimed the order");
 *       const { rows } = await db.query("SELECT state FROM orders WHERE id = 42");
 *       if (rows[0].state === "new")
 *         await db.query("UPDATE orders SET state = 'paid' WHERE id = 42 AND fence = $1", t);
 *     });
 *
 * The client may be a Redis (by Sentinels too) or a Cluster.
 *
 * - Each `withLock` is an owner of its own. Work inside it enters the same grant again by
 *   `lock.again(async () => ...)`: one more hold; the holds may end in any order.
 * - A wait is one call on a connection of its own, first come, first served. `options.signal` calls it
 *   off at once: neither a wait nor a hold stays.
 * - A grant is renewed every third of its lease, by one timer for all locks.
 * - As soon as the lock is known to be lost, or its lease, counted from the sending of the call that
 *   set it, has passed without an answer: `lock.signal` is aborted, `lock.token` and `lock.check()`
 *   throw LockLost, and `withLock` rejects with it. Pass the signal on to what the work calls.
 * - Calls whose replies were lost are repeated, and do not add up.
 * - `close` stops renewing, releases everything and cancels all waits; each `withLock` rejects when
 *   its lock is released. To release on SIGTERM:
 *   `process.once("SIGTERM", () => locks.close().then(() => process.exit(143)))`.
 *   After a kill -9 the leases end by themselves.
 *
 * What no lock can do: stop work that goes on after its lease. So what is written to has to look at the
 * token, as above, and in Redis by LOCK.FENCE in the script that writes.
 */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { Cluster, Command, Redis, ReplyError } from "ioredis";

const CALL_TIMEOUT = 2000; // ms until a call that does not wait is given up, to be repeated
const PATIENCE = 5000; // ms of repeating where neither a wait nor a lease sets an end
const PAUSE = 100; // ms between two attempts
const LOST = ["NOTHELD", "NOTOWNER", "FENCED"];
/** Answers of a server that cannot serve now: the call is sent again. */
const PASSING = ["UNBLOCKED", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED",
  "ASK", "NOREPLICAS", "MISCONF"];

/** Another owner has the lock, and the time to wait for it was up or the locks were closed. */
export class LockBusy extends Error {}
/** The lock is not this owner's any more, or that can no longer be known. */
export class LockLost extends Error {}
/** NOTHELD, NOTOWNER or FENCED; `repeated` when an earlier attempt may have been carried out. */
class Refused extends Error {
  constructor(message: string, readonly repeated: boolean) { super(message); }
}

/** Times are in ms: the lease (30 s), and how long to wait in line (not at all). */
export interface LockOptions { lease?: number; wait?: number; signal?: AbortSignal }
type Words = [name: string, key: string, ...rest: (string | number)[]];
type Answer = { reply: any; sent: number };

const firstWord = (error: unknown) => String((error as Error).message).split(" ", 1)[0];
const isAnswer = (error: unknown) => error instanceof ReplyError;
const isPassing = (error: unknown) =>
  isAnswer(error) ? PASSING.includes(firstWord(error)) : !(error instanceof TypeError);

/** A command that a cluster's client sends to the node of its key, though it does not know it. */
class Keyed extends Command {
  constructor([name, ...rest]: Words) { super(name, rest.map(String), { replyEncoding: "utf8" }); }
  getKeys() { return [this.args[0] as string]; }
}

/** One unbroken ownership of a lock: what the work gets. */
export class Lock {
  holds = 1;
  deadline = -Infinity;
  renewAt = 0;
  lease = 0;
  /** Calls that change the count go out one after the other: each says what it is to be. */
  turn: Promise<unknown> = Promise.resolve();
  private readonly loss = new AbortController();
  /** Aborted, with LockLost as its reason, when the lock is lost. */
  readonly signal = this.loss.signal;
  /** Rejects, with LockLost, when the lock is lost. */
  readonly lost = new Promise<never>((_, reject) =>
    this.signal.addEventListener("abort", () => reject(this.signal.reason), { once: true }));

  constructor(private readonly locks: Locks, readonly key: string, readonly owner: string,
    /** The token without a look at whether it can be trusted. */ readonly grantToken: number) {
    this.lost.catch(() => {}); // no fault where nobody listens
  }

  /** The fencing token, to be sent with each write. Throws LockLost once it is in doubt. */
  get token(): number { this.check(); return this.grantToken; }

  /** For how many ms the lock can be trusted without another renewal. */
  get validFor(): number {
    return this.signal.aborted || !this.holds ? 0 : Math.max(0, this.deadline - performance.now());
  }

  /** Throws LockLost unless the lock is still this owner's, as far as can be known. */
  check(): void {
    this.signal.throwIfAborted();
    if (!this.validFor) throw new LockLost(`${this.key}: ${this.holds ? "the lease has passed" : "released"}`);
  }

  /** One more hold for as long as this work takes. */
  again<T>(work: (lock: Lock) => Promise<T>, options: { lease?: number } = {}): Promise<T> {
    return this.locks.enterAgain(this, options.lease ?? this.lease, work);
  }

  lengthen(lease: number, sent: number): void {
    this.lease = lease;
    this.deadline = Math.max(this.deadline, sent + lease);
    this.renewAt = sent + lease / 3;
  }

  lose(why: string): void { this.loss.abort(new LockLost(`${this.key}: ${why}`)); }
}

/** The locks of a process. `service` is the first part of each owner's name. */
export class Locks {
  private readonly calls: Redis | Cluster;
  private readonly held = new Set<Lock>();
  private readonly ends = new Set<Promise<unknown>>();
  private readonly closing = new AbortController();
  private timer?: NodeJS.Timeout;

  constructor(private readonly client: Redis | Cluster, private readonly service = "app") {
    // A client that repeats nothing unseen: only the first NOTHELD to a release is a loss.
    const once = { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false, commandTimeout: CALL_TIMEOUT };
    this.calls = client instanceof Cluster
      ? client.duplicate([], { redisOptions: once, retryDelayOnFailover: 0 })
      : client.duplicate({ ...once, retryStrategy: () => PAUSE,
        reconnectOnError: (error: Error) => error.message.startsWith("READONLY") });
    this.calls.on("error", () => {}); // each call says for itself that it failed
  }

  /** Does the work while holding the lock. Waits in line for `wait` ms, then rejects with LockBusy. */
  async withLock<T>(key: string, options: LockOptions, work: (lock: Lock) => Promise<T>): Promise<T> {
    this.closing.signal.throwIfAborted();
    key = (this.client.options.keyPrefix ?? "") + key;
    const owner = `${this.service}:${hostname()}:${process.pid}:${randomUUID()}`;
    const signal = AbortSignal.any([this.closing.signal, ...(options.signal ? [options.signal] : [])]);
    const first = this.firstHold(key, owner, options.lease ?? 30_000, performance.now() + (options.wait ?? 0), signal)
      .catch(async (error) => {
        if (!(error instanceof LockBusy) || signal.aborted) await this.cancel(key, owner);
        throw error;
      });
    const { reply, sent } = await this.untilClosed(first);
    if (this.closing.signal.aborted) {
      await this.cancel(key, owner);
      throw this.closing.signal.reason;
    }
    const lock = new Lock(this, key, owner, Number(reply[0]));
    lock.lengthen(Number(reply[3]), sent);
    this.held.add(lock);
    this.look();
    return this.during(lock, work);
  }

  /** Stops renewing, releases all locks, aborts their signals and cancels all waits. */
  async close(): Promise<void> {
    this.closing.abort(new LockBusy("the locks are closed"));
    clearTimeout(this.timer);
    for (const lock of this.held) {
      lock.lose("the locks were closed");
      void this.untilClosed(this.inTurn(lock, () => this.cancel(lock.key, lock.owner)));
    }
    await Promise.allSettled(this.ends);
    this.calls.disconnect();
  }

  /** For Lock.again. */
  async enterAgain<T>(lock: Lock, lease: number, work: (lock: Lock) => Promise<T>): Promise<T> {
    await this.inTurn(lock, async () => {
      lock.check();
      const { reply, sent } = await this.repeat(lock.deadline, "LOCK.ACQUIRE", lock.key, lock.owner,
        "PX", Math.round(lease), "HOLDS", lock.holds + 1, "TOKEN", lock.grantToken);
      lock.holds += 1;
      lock.lengthen(Number(reply[3]), sent);
      this.look();
    }).catch((error) => {
      if (error instanceof Refused) lock.lose(error.message);
      lock.check();
      throw error;
    });
    return this.during(lock, work);
  }

  private inTurn<T>(lock: Lock, change: () => Promise<T>): Promise<T> {
    const turn = lock.turn.then(change);
    lock.turn = turn.catch(() => {});
    return turn;
  }

  private async during<T>(lock: Lock, work: (lock: Lock) => Promise<T>): Promise<T> {
    let result: T;
    try {
      lock.check();
      result = await Promise.race([work(lock), lock.lost]);
    } finally {
      await this.untilClosed(this.inTurn(lock, () => this.release(lock)));
    }
    lock.signal.throwIfAborted();
    return result;
  }

  private async firstHold(key: string, owner: string, lease: number, until: number, signal: AbortSignal): Promise<Answer> {
    const acquire: Words = ["LOCK.ACQUIRE", key, owner, "PX", Math.round(lease), "HOLDS", 1];
    for (;;) {
      signal.throwIfAborted();
      const { reply, sent } = await this.repeat(Math.max(until, performance.now() + PATIENCE), ...acquire);
      const left = until - performance.now();
      signal.throwIfAborted();
      if (reply) return { reply, sent };
      if (left <= 0) throw new LockBusy(`${key}: another owner has it`);
      try {
        const grant = await this.wait(signal, left, ...acquire, "BLOCK", Math.ceil(left));
        if (!grant) throw new LockBusy(`${key}: another owner has it still`);
        // When the grant was made cannot be known, so the lease is counted from a renewal.
        return await this.repeat(performance.now() + lease, "LOCK.RENEW", key, owner, "TOKEN", grant[0]);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof Refused) continue; // the grant has ended already: back in line
        if (error instanceof LockBusy || !isPassing(error)) throw error;
        await pause(PAUSE);
      }
    }
  }

  private async release(lock: Lock): Promise<void> {
    if (!lock.validFor) lock.lose("the lease has passed");
    const holds = lock.holds -= 1;
    if (!holds) this.held.delete(lock); // from here on nothing renews it
    if (lock.signal.aborted) return;
    try {
      const until = Math.min(lock.deadline, performance.now() + PATIENCE);
      const { sent } = await this.repeat(until, "LOCK.RELEASE", lock.key, lock.owner,
        "HOLDS", holds, "TOKEN", lock.grantToken);
      lock.lengthen(lock.lease, sent);
    } catch (error) {
      // Refused when repeated: an earlier attempt has released it. No answer: its lease will end.
      if (error instanceof Refused && (holds || !error.repeated)) lock.lose(error.message);
      else if (!(error instanceof Refused) && !isPassing(error)) throw error;
    }
  }

  /** Tells of leases that have passed, and has the others renewed. Never waits for a server. */
  private look = (): void => {
    clearTimeout(this.timer);
    const now = performance.now();
    let next = Infinity;
    for (const lock of this.held) {
      if (lock.signal.aborted) continue;
      if (now >= lock.deadline) { lock.lose("the lease has passed without an answer"); continue; }
      if (now >= lock.renewAt) {
        lock.renewAt = Infinity; // until the answer is there
        void this.renew(lock).then(this.look);
      }
      next = Math.min(next, lock.renewAt, lock.deadline);
    }
    const far = 2 ** 31 - 1;
    if (next < Infinity && !this.closing.signal.aborted) this.timer = setTimeout(this.look, Math.min(next - now, far));
  };

  private async renew(lock: Lock): Promise<void> {
    const sent = performance.now();
    try {
      const reply = await this.call("LOCK.RENEW", lock.key, lock.owner, "TOKEN", lock.grantToken);
      lock.lengthen(Number(reply[3]), sent);
    } catch (error) {
      if (LOST.includes(firstWord(error)) && lock.holds) lock.lose(`a renewal was answered ${firstWord(error)}`);
      lock.renewAt = performance.now() + Math.min(PAUSE, lock.lease / 30);
    }
  }

  /** Sees to it that the owner neither holds nor waits; failing that, a lease has to end. */
  private async cancel(key: string, owner: string): Promise<void> {
    await this.repeat(performance.now() + CALL_TIMEOUT, "LOCK.RELEASE", key, owner, "ALL").catch(() => {});
  }

  /** One waiting call on a connection of its own, which reads for longer than the wait. */
  private async wait(signal: AbortSignal, left: number, ...words: Words): Promise<any> {
    const connection = this.node(words[1]).duplicate({ commandTimeout: left + PATIENCE, retryStrategy: () => null,
      maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false });
    connection.on("error", () => {});
    try {
      const reply = connection.sendCommand(new Keyed(words)) as Promise<any>;
      const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
      await Promise.race([reply, aborted]);
      if (!signal.aborted) return await reply;
      await this.cancel(words[1], words[2] as string);
      // The end of the wait is read; a grant that crossed the abort is released by the caller.
      await Promise.race([reply.catch(() => {}), pause(CALL_TIMEOUT, undefined, { ref: false })]);
      throw signal.reason;
    } finally {
      connection.disconnect();
    }
  }

  /** The client of the server that has the key. */
  private node(key: string): Redis {
    if (!(this.calls instanceof Cluster)) return this.client as Redis;
    const address = this.calls.slots[new Keyed(["", key]).getSlot()!]?.[0];
    const node = this.calls.nodes("master").find(({ options }) => `${options.host}:${options.port}` === address);
    if (!node) throw new Error(`no node is known to serve ${key}`);
    return node;
  }

  /** Sends a call until it is answered. Gives the reply, and when the answered call was sent. */
  private async repeat(until: number, ...words: Words): Promise<Answer> {
    let repeated = false;
    for (;;) {
      const sent = performance.now();
      try {
        return { reply: await this.call(...words), sent };
      } catch (error) {
        if (LOST.includes(firstWord(error))) throw new Refused((error as Error).message, repeated);
        if (!isPassing(error) || performance.now() + PAUSE > until) throw error;
        repeated ||= !isAnswer(error);
      }
      await pause(PAUSE);
    }
  }

  private async call(...words: Words): Promise<any> {
    try {
      return await this.calls.sendCommand(new Keyed(words));
    } catch (error) {
      // A server that hangs: the next call asks the Sentinels anew.
      if ((error as Error).message === "Command timed out" && this.calls instanceof Redis) this.calls.disconnect(true);
      throw error;
    }
  }

  /** Work that `close` waits for. */
  private untilClosed<T>(work: Promise<T>): Promise<T> {
    this.ends.add(work);
    const ended = () => this.ends.delete(work);
    work.then(ended, ended);
    return work;
  }
}
