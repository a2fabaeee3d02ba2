/** The API of node-redlock 5 on the locks of redis-lock. */

import { EventEmitter } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { LockBusy, LockLost, LockMisuse, LockUnavailable } from "../errors.ts";
import type { Grant } from "../grant.ts";
import { Locks } from "../locks.ts";
import { now } from "../time.ts";
import { ExecutionError, type ExecutionResult, errorsOf, isForeign, statsOf } from "./errors.ts";
import { Lock } from "./lock.ts";
import { type Settings, attemptsOf, pauseOf, settingsOf, windowOf } from "./settings.ts";
import { type RedlockClient, Source } from "./source.ts";

/**
 * Aborted when the lock is lost, with the reason in `error`.
 *
 * @see {@link Redlock} for an example
 */
export type RedlockAbortSignal = AbortSignal & { error?: Error };
/**
 * The work under a lock.
 *
 * @see {@link Redlock} for an example
 */
export type Routine<T> = (signal: RedlockAbortSignal) => Promise<T>;

/** The longest duration, in ms: ten years. */
const LONGEST = 315_360_000_000;
/** How long the first of several resources are held, at most, while the others are waited for. */
const PATIENCE = 30_000;
/** For the one call that takes a lock of another process over. */
const MOMENT = 2000;

const inOrder = (resources: readonly string[]): string[] => [...new Set(resources)].sort();

/**
 * Locks with the API of node-redlock 5. Its event `error` reports each vote of a client against an operation; nobody has to
 * listen.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import Redlock from "redis-lock-client/redlock"; // was: from "redlock"
 *
 * const redlock = new Redlock([new Redis()], { retryCount: 10, retryDelay: 200 });
 * await redlock.using(["accounts:1", "accounts:2"], 5000, async (signal) => {
 *   if (signal.aborted) throw signal.error;
 * });
 *
 * let lock = await redlock.acquire(["accounts:1"], 5000); // ms
 * lock = await lock.extend(5000);
 * await pay(lock.tokens.get("accounts:1"));
 * await lock.release();
 * await redlock.quit();
 * ```
 */
export class Redlock extends EventEmitter {
  /** One client of a server or cluster, or at least three clients of independent servers. */
  readonly clients: Set<RedlockClient>;
  /** The settings of calls that name no others. */
  readonly settings: Settings;
  readonly #clients: readonly RedlockClient[];
  readonly #held = new WeakMap<Lock, readonly Grant[]>();

  /**
   * Opens no connection. The third argument of node-redlock, its scripts, is not used.
   *
   * @throws Error if there is no client; LockMisuse if there are two
   */
  constructor(clients: Iterable<RedlockClient>, settings: Partial<Settings> = {}, _scripts?: unknown) {
    super();
    this.on("error", () => {}); // without a listener an error of a minority would end the process
    this.clients = new Set(clients);
    this.#clients = [...this.clients];
    if (this.#clients.length === 0) throw new Error("Redlock must be instantiated with at least one redis client.");
    if (this.#clients.length === 2) throw new LockMisuse("two clients: both servers would have to be up; use one, or at least three");
    this.settings = settingsOf(settings);
  }

  /** Releases all locks, and ends the clients. */
  async quit(): Promise<void> {
    await Source.of(this.#clients).end();
  }

  /**
   * Acquires all resources for `duration` ms, or none.
   *
   * @throws {@link ExecutionError} when the time that the settings allow is over; Error if `duration` is no whole number
   */
  async acquire(resources: string[], duration: number, settings?: Partial<Settings>): Promise<Lock> {
    mustBeInteger(duration);
    return this.#acquire(resources, duration, settingsOf(settings, this.settings), true);
  }

  /**
   * Releases the lock.
   *
   * @throws {@link ExecutionError} if it was lost before, or if too few clients answer
   */
  async release(lock: Lock, _settings?: Partial<Settings>): Promise<ExecutionResult> {
    const start = Date.now();
    const { resources } = lock;
    try {
      const all = await Promise.allSettled((await this.#grantsOf(lock)).map((grant) => grant.release()));
      const failed = all.find((it) => it.status === "rejected");
      if (failed) throw failed.reason;
      return { attempts: [Promise.resolve(statsOf(this.#clients, resources.length))], start };
    } catch (error) {
      throw this.#failed(error, resources);
    } finally {
      lock.expiration = 0;
    }
  }

  /**
   * The lock for `duration` ms from now on, as a new object; the given one is over.
   *
   * @throws {@link ExecutionError} if it was lost before, or if too few clients answer; Error if `duration` is no whole number
   */
  async extend(existing: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    mustBeInteger(duration);
    if (existing.expiration < Date.now()) throw new ExecutionError("Cannot extend an already-expired lock.", []);
    const all = settingsOf(settings, this.settings);
    const end = now() + windowOf(all);
    for (;;) {
      try {
        const grants = await this.#grantsOf(existing);
        await Promise.all(grants.map((grant) => grant.extend(Math.min(duration, LONGEST))));
        existing.expiration = 0;
        return this.#lockOf(existing.resources, grants, duration, all);
      } catch (error) {
        if (!(error instanceof LockUnavailable) || now() >= end) throw this.#failed(error, existing.resources);
        await sleep(Math.min(pauseOf(all), end - now()));
      }
    }
  }

  /**
   * Works under a lock that is held for as long as that takes, and resolves with the result. When the lock is lost, the
   * signal is aborted, with the reason in `error`.
   *
   * @param duration - In ms: at least 100 above `automaticExtensionThreshold`.
   * @throws {@link ExecutionError} if it cannot be acquired, or was lost when the work has succeeded; what the work throws
   */
  async using<T>(resources: string[], duration: number, settings: Partial<Settings>, routine?: Routine<T>): Promise<T>;
  async using<T>(resources: string[], duration: number, routine: Routine<T>): Promise<T>;
  async using<T>(resources: string[], duration: number, settingsOrRoutine: Partial<Settings> | Routine<T> | undefined,
    optional?: Routine<T>): Promise<T> {
    mustBeInteger(duration);
    const settings = settingsOf(typeof settingsOrRoutine === "object" ? settingsOrRoutine : undefined, this.settings);
    const routine = optional ?? settingsOrRoutine;
    if (typeof routine !== "function") throw new Error("INVARIANT: routine is not a function.");
    if (settings.automaticExtensionThreshold > duration - 100) {
      throw new Error("A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.");
    }
    const controller = new AbortController();
    const signal = controller.signal as RedlockAbortSignal;
    const lock = await this.#acquire(resources, duration, settings, false);
    for (const grant of await this.#grantsOf(lock)) {
      grant.onLost((loss) => {
        signal.error ??= this.#failed(loss, resources);
        controller.abort();
      });
    }
    let result: T;
    try {
      result = await routine(signal);
    } catch (error) {
      await lock.release().catch(() => {}); // the error of the work is the one to report
      throw error;
    }
    await lock.release();
    return result;
  }

  /** Waits in line for as long as node-redlock would try again and again. */
  async #acquire(resources: string[], duration: number, settings: Settings, isFixed: boolean): Promise<Lock> {
    const end = now() + windowOf(settings);
    for (;;) {
      try {
        const grants = await this.#take(inOrder(resources), Math.min(duration, LONGEST), end, isFixed);
        return this.#lockOf(resources, grants, duration, settings);
      } catch (error) {
        const mayChange = [LockBusy, LockLost, LockUnavailable].some((kind) => error instanceof kind) || isForeign(error);
        if (!mayChange || now() >= end) throw this.#failed(error, resources, mayChange ? attemptsOf(settings) : 1);
        await sleep(Math.max(0, Math.min(pauseOf(settings), end - now()))); // a key of another type has no line
      }
    }
  }

  /** Acquires the resources one after the other. Their duration begins when all are there. */
  async #take(keys: readonly string[], duration: number, end: number, isFixed: boolean): Promise<readonly Grant[]> {
    const { locks } = Source.of(this.#clients);
    const isOne = keys.length === 1;
    const last = isOne ? end : Math.min(end, now() + PATIENCE);
    const grants: Grant[] = [];
    try {
      for (const key of keys) {
        const wait = Math.max(0, last - now());
        const fixed = isFixed ? Math.min(isOne ? duration : duration + wait, LONGEST) : undefined;
        grants.push(await locks.lock(key, { wait, fixed }).acquire());
      }
      if (isFixed && !isOne) await Promise.all(grants.map((grant) => grant.extend(duration)));
      const lost = grants.find((grant) => grant.lost);
      if (lost) throw lost.lost;
      return grants;
    } catch (error) {
      await Promise.allSettled(grants.map((grant) => grant.release()));
      throw error;
    }
  }

  #lockOf(resources: string[], grants: readonly Grant[], duration: number, { driftFactor }: Settings): Lock {
    const lease = Math.min(duration, LONGEST);
    const drift = Math.round(driftFactor * lease) + 2;
    const remaining = Math.min(lease, ...grants.map((grant) => grant.remaining));
    const keys = inOrder(resources);
    const tokens = new Map(grants.map(({ token }, at) => [keys[at] as string, token]));
    const value = grants.map(({ owner }) => owner).join(" ");
    const stats = Promise.resolve(statsOf(this.#clients, resources.length));
    const lock = new Lock(this, resources, value, [stats], Math.floor(Date.now() + remaining - drift), tokens);
    this.#held.set(lock, grants);
    return lock;
  }

  /** What stands behind a lock. One that was made by hand, of what another process has sent, is taken over. */
  async #grantsOf(lock: Lock): Promise<readonly Grant[]> {
    const known = this.#held.get(lock);
    if (known) return known;
    const { locks } = Source.of(this.#clients);
    const owners = lock.value.split(" ");
    const grants: Grant[] = [];
    for (const [at, key] of inOrder(lock.resources).entries()) {
      const owner = owners[at], token = lock.tokens.get(key);
      if (!(locks instanceof Locks)) throw new LockMisuse(`${key}: a lock on several servers cannot be adopted`, { key });
      if (!owner || !token) throw new LockMisuse(`${key}: a lock is taken over by its resources, value and tokens`, { key });
      grants.push(await locks.adopt(key, owner, token, { fixed: Math.max(MOMENT, lock.expiration - Date.now()) }));
    }
    this.#held.set(lock, grants);
    return grants;
  }

  /** The error for so many attempts that ended like this. */
  #failed(error: unknown, { length }: readonly string[], attempts = 1): ExecutionError {
    const stats = statsOf(this.#clients, length, errorsOf(this.#clients, error));
    for (const vote of stats.votesAgainst.values()) this.emit("error", vote);
    return new ExecutionError("The operation was unable to achieve a quorum during its retry window.",
      Array.from({ length: attempts }, () => Promise.resolve(stats)), { cause: error });
  }
}

function mustBeInteger(duration: number): void {
  if (!Number.isInteger(duration)) throw new Error("Duration must be an integer value in milliseconds.");
}
