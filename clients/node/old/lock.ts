/** A lock: a name, a mode and options. Making one calls nothing. */

import type { Calls } from "./calls.ts";
import { LockBusy, LockError, LockMisuse, attach } from "./errors.ts";
import { Grant } from "./grant.ts";
import type { Mode } from "./holding.ts";
import { type LockOptions, type Wish, checkKey, freshOwner } from "./options.ts";
import type { Scope } from "./scope.ts";
import type { Stop } from "./stop.ts";
import { later } from "./time.ts";

/** How long work may take to end after it was told that its lock is lost. */
const FAREWELL = 1000;

/** Whoever takes locks: a `Locks`, where each acquire is an owner, or a task. */
export interface Taker {
  readonly scope: Scope;
  /** Throws LockMisuse where the options make no sense. */
  wish(options: LockOptions): Wish;
  take(name: string, mode: Mode, wish: Wish, stop: Stop): Promise<Grant>;
}

/** Acquires for an owner of its own, or for one that the user has named. */
export async function takeAlone(calls: Calls, service: string, name: string, mode: Mode, wish: Wish, stop: Stop): Promise<Grant> {
  const { owner: named } = wish;
  if (named !== undefined) return calls.owners.of(named).take(name, mode, wish, stop);
  return new Grant(calls, await calls.acquire({ name, mode, owner: freshOwner(service), isNamed: false, wish, limit: calls.limitOf(wish) }, stop));
}

/** A lock on one key. */
export class Lock<Options extends LockOptions = LockOptions> {
  /** The key, as the user's client knows it. */
  readonly key: string;
  readonly #taker: Taker;
  readonly #mode: Mode;
  readonly #options: Options;

  /** @internal */
  constructor(taker: Taker, key: string, mode: Mode, options: Options) {
    this.key = checkKey(key);
    this.#taker = taker;
    this.#mode = mode;
    this.#options = options;
    this.#wish(options);
  }

  /**
   * Takes the lock. Rejects with LockBusy when others have it and the time to wait is over, with the reason of
   * the signal when that was aborted, or with another LockError: then neither a hold nor a wait is left.
   */
  async acquire(options: Partial<Options> = {}): Promise<Grant> {
    const { scope } = this.#taker;
    return scope.acquiring(this.key, async () => {
      const all = { ...this.#options, ...options };
      const wish = this.#wish(all);
      return scope.stoppable(all.signal, (stop) => this.#taker.take(this.key, this.#mode, wish, stop));
    });
  }

  /** Like `acquire`, but undefined when others have it. */
  async tryAcquire(options: Partial<Options> = {}): Promise<Grant | undefined> {
    try {
      return await this.acquire(options);
    } catch (error) {
      if (error instanceof LockBusy) return undefined;
      throw error;
    }
  }

  /**
   * Does the work while holding the lock, and gives the lock back. An error of the work is what is thrown,
   * with what went wrong with the lock as its `cause`; where the work succeeds, an error of the lock is. When the
   * lock is lost, `grant.signal` is aborted, and the work has a second to end before LockLost is thrown.
   */
  async run<T>(work: (grant: Grant) => T | Promise<T>, options: Partial<Options> = {}): Promise<T> {
    return runUnder(await this.acquire(options), work);
  }

  #wish(options: LockOptions): Wish {
    // To the server one permit is one owner: two in one name would be one place, and the release of one the end of both.
    if (typeof this.#mode === "object" && options.owner !== undefined) {
      throw new LockMisuse(`${this.key}: a permit has an owner of its own`, { key: this.key });
    }
    return this.#taker.wish(options);
  }
}

/** Does the work, and gives the grant back. */
export const runUnder = <T>(grant: Grant, work: (grant: Grant) => T | Promise<T>): Promise<T> => runAll([grant], () => work(grant));

/** Does the work under all of them, and gives them back: the last one first, and all in the time of one. */
export async function runAll<T>(grants: readonly Grant[], work: (grants: readonly Grant[]) => T | Promise<T>): Promise<T> {
  let result: { readonly value: T } | undefined;
  let failure: { readonly error: unknown } | undefined;
  try {
    result = { value: await orLost(grants, async () => work(grants)) };
  } catch (error) {
    failure = { error };
  }
  const releases = await Promise.allSettled([...grants].reverse().map((grant) => grant.release()));
  for (const release of releases) {
    if (release.status === "fulfilled") continue;
    const error: unknown = release.reason;
    if (!failure || isNewsOf(failure.error, error)) throw error;
    if (error instanceof LockError) attach(failure.error, error);
  }
  if (failure) throw failure.error;
  return (result as { readonly value: T }).value;
}

/** Whether an error of the work only says that it was told of this loss. */
function isNewsOf(error: unknown, loss: unknown): boolean {
  return error === loss || (error instanceof Error && error.name === "AbortError" && error.cause === loss);
}

/** Settles as the work does, but no later than a second after a loss. */
function orLost<T>(grants: readonly Grant[], work: () => Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let farewell: { cancel(): void } | undefined;
    const offs = grants.map((grant) => grant.onLost((loss) => {
      farewell ??= later(FAREWELL, () => reject(loss), { ref: true });
    }));
    const end = (): void => {
      for (const off of offs) off();
      farewell?.cancel();
    };
    work().then(
      (value) => { end(); resolve(value); },
      (error: unknown) => { end(); reject(error as Error); },
    );
  });
}
