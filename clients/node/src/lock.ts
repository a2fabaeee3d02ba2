/** A lock: a key, a mode and options. Making one calls nothing. */

import { LockBusy, attach } from "./errors.ts";
import { Grant, type Held } from "./grant.ts";
import { type LockOptions, type Settings, checkKey, observed, termsOf } from "./options.ts";
import type { Terms } from "./state/claim.ts";
import { now } from "./time.ts";

/**
 * A lock of one key. Making one calls nothing, and it may be used any number of times.
 *
 * An acquire that fails leaves neither a hold nor a wait. Besides {@link LockBusy} it may reject with
 *
 * - {@link LockUnavailable} if the server does not answer within the time to wait, which is at least one reply timeout here;
 * - {@link LockRefused} if the server refuses it, for example for want of a right or of the module;
 * - {@link LockLost} if the lock was lost before it was handed over;
 * - {@link LockDeadlock} or {@link LockNotAlone}, only for a {@link Task} that holds a lock already;
 * - {@link LockMisuse} if the locks are closed, or the key is of another type.
 *
 * @example
 * ```ts
 * const lock = locks.lock("lock:orders:42", { wait: 10_000 });
 *
 * await lock.run(({ token, signal }) => pay(token, signal));
 *
 * const grant = await lock.acquire();
 * try {
 *   await pay(grant.token, grant.signal);
 * } finally {
 *   await grant.release();
 * }
 *
 * const perhaps = await lock.tryAcquire(); // undefined if others hold it
 * await perhaps?.release();
 * ```
 */
export class Lock {
  /** The key, with the prefix. */
  readonly key: string;
  readonly #settings: Settings;
  readonly #terms: Terms;
  readonly #hold: (key: string, terms: Terms) => Promise<Held>;

  /** @internal */
  constructor(prefix: string, key: string, of: Pick<Terms, "mode" | "task" | "adopted">, options: LockOptions, settings: Settings,
    hold: (key: string, terms: Terms) => Promise<Held>) {
    this.key = prefix + checkKey(key);
    this.#settings = settings;
    const { lease } = settings;
    this.#terms = termsOf({ ...of, lease, isFixed: false, wait: Infinity, maxHold: Infinity }, options);
    this.#hold = hold;
  }

  /**
   * Acquires the lock: waits in line until the time to wait is over or the signal is aborted.
   *
   * @param options - Replace those of the lock.
   * @throws {@link LockBusy} if the time is over; the reason of the signal if that is aborted
   */
  async acquire(options?: LockOptions): Promise<Grant> {
    const { observer } = this.#settings;
    const terms = options ? termsOf(this.#terms, options) : this.#terms;
    terms.signal?.throwIfAborted();
    const begun = observer ? now() : 0;
    return new Grant(await observed("acquired", observer, this.key, this.#hold(this.key, terms), begun), observer);
  }

  /**
   * Acquires the lock if it is free now; undefined if others hold it or wait for it.
   *
   * @throws {@link LockUnavailable} if the server gives no answer; the other errors of a lock
   */
  async tryAcquire(options?: LockOptions): Promise<Grant | undefined> {
    try {
      return await this.acquire({ ...options, wait: 0 });
    } catch (error) {
      if (error instanceof LockBusy) return undefined;
      throw error;
    }
  }

  /**
   * Works under the lock, and releases it unless the work has. An error of the work is thrown as it is, with what went wrong
   * with the lock as its `cause`; if the work succeeds, an error of the lock is thrown. When the lock is lost, `grant.signal`
   * is aborted.
   *
   * @param options - Replace those of the lock.
   * @returns what the work gives
   * @throws {@link LockBusy} if the time to wait is over; {@link LockLost} if the lock was lost during the work
   */
  async run<T>(work: (grant: Grant) => T | Promise<T>, options?: LockOptions): Promise<T> {
    const grant = await this.acquire(options);
    let result: T;
    try {
      result = await work(grant);
    } catch (error) {
      if (!grant.isReleased) await grant.release().catch((more: unknown) => attach(error, more));
      throw error;
    }
    if (!grant.isReleased) await grant.release();
    return result;
  }
}
