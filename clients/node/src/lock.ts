/** A lock: a key, a mode and options. Making one calls nothing. */

import { LockBusy, attach } from "./errors.ts";
import type { Grant } from "./grant.ts";
import { type LockOptions, type Settings, type Terms, checkKey, guard, termsOf } from "./options.ts";
import type { Words } from "./state/claim.ts";
import { now } from "./time.ts";

/** A lock of one key. */
export class Lock {
  /** The key, with the prefix. */
  readonly key: string;
  readonly #mode: Words;
  readonly #options: LockOptions;
  readonly #settings: Settings;
  readonly #terms: Terms;
  readonly #acquire: (terms: Terms) => Promise<Grant>;

  /** @internal */
  constructor(prefix: string, key: string, mode: Words, options: LockOptions, settings: Settings,
    acquire: (key: string, terms: Terms) => Promise<Grant>) {
    this.key = prefix + checkKey(key);
    this.#mode = mode;
    this.#options = options;
    this.#settings = settings;
    this.#terms = termsOf(options, mode, settings.lease);
    this.#acquire = (terms) => acquire(this.key, terms);
  }

  /**
   * Acquires the lock: waits in line until the time to wait is over (LockBusy) or the signal is aborted (its reason).
   * Whatever it rejects with, neither a hold nor a wait is left.
   */
  acquire(options?: LockOptions): Promise<Grant> {
    const { observer, lease } = this.#settings;
    const terms = options ? termsOf({ ...this.#options, ...options }, this.#mode, lease) : this.#terms;
    if (terms.signal?.aborted) return Promise.reject(terms.signal.reason);
    if (!observer?.acquired) return this.#acquire(terms);
    const begun = now();
    const end = (error?: unknown): void => guard(() => observer.acquired?.(this.key, now() - begun, error));
    const acquired = this.#acquire(terms);
    acquired.then(() => end(), end);
    return acquired;
  }

  /** Acquires the lock if it is free now; undefined if others hold it or wait for it. */
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
