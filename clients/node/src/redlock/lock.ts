/** The lock that an acquire of a Redlock returns. */

import type { ExecutionResult, ExecutionStats } from "./errors.ts";

/**
 * The calls of its `Redlock` that a lock makes.
 *
 * @see {@link Lock} for an example
 */
export interface Operations {
  /** As {@link Redlock.release}. */
  release(lock: Lock): Promise<ExecutionResult>;
  /** As {@link Redlock.extend}. */
  extend(existing: Lock, duration: number): Promise<Lock>;
}

/**
 * A lock that a {@link Redlock} has acquired. Another process makes one by hand, of the values that this process has sent.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import Redlock, { Lock } from "redis-lock-client/redlock";
 *
 * const redlock = new Redlock([new Redis()]);
 * const lock = await redlock.acquire(["orders:42"], 5000); // ms
 * const sent = { value: lock.value, expiration: lock.expiration, tokens: [...lock.tokens] };
 *
 * const same = new Lock(redlock, ["orders:42"], sent.value, [], sent.expiration, new Map(sent.tokens));
 * await (await same.extend(5000)).release();
 * ```
 */
export class Lock {
  /** The Redlock that acquired it. */
  readonly redlock: Operations;
  /** The keys, as the acquire named them. */
  readonly resources: string[];
  /** The owner, as LOCK.INFO shows it. Of several resources: their owners, in the order of the sorted names. */
  readonly value: string;
  /** How the clients voted. */
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** Until when the lock may be trusted, by the wall clock, in ms since 1970; 0 when it is over. */
  expiration: number;
  /** The fencing token of each resource: later holders have higher ones. */
  readonly tokens: ReadonlyMap<string, number>;

  /** For a lock of another process, on one client: with its `tokens`. */
  constructor(redlock: Operations, resources: string[], value: string, attempts: ReadonlyArray<Promise<ExecutionStats>>,
    expiration: number, tokens: ReadonlyMap<string, number> = new Map()) {
    this.redlock = redlock;
    this.resources = resources;
    this.value = value;
    this.attempts = attempts;
    this.expiration = expiration;
    this.tokens = tokens;
  }

  /**
   * Releases the lock.
   *
   * @throws {@link ExecutionError} if it was lost before, or if too few clients answer
   */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /**
   * The lock for `duration` ms from now on, as a new object; this one is over.
   *
   * @param duration - In ms, a whole number.
   * @throws {@link ExecutionError} if it was lost before, or if too few clients answer
   */
  extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }
}
