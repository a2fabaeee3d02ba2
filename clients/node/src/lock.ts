/** A lock: a key, a mode and options. Making one calls nothing. */

import type { Core } from "./core.ts";
import { LockBusy, attach } from "./errors.ts";
import { Grant } from "./grant.ts";
import { Holding } from "./holding.ts";
import { type LockOptions, type Observer, type Terms, guard } from "./options.ts";
import type { Server } from "./server.ts";
import type { TaskOwner } from "./state/claim.ts";
import { Fault } from "./state/fault.ts";
import { now } from "./time.ts";

/** Whoever acquires locks: a `Locks`, where each acquire has an owner of its own, or a task. */
export interface Taker {
  readonly core: Core;
  readonly prefix: string;
  readonly task?: TaskHolds | undefined;
}

/** What a task holds. */
export interface TaskHolds extends TaskOwner {
  readonly held: Map<string, Holding>;
}

/** Acquires a lock; with an owner and a token, adopts a grant. */
export function acquire(taker: Taker, key: string, terms: Terms, owner?: string, adopted?: number): Promise<Grant> {
  return observed(taker.core.settings.observer, key, () => take(taker, key, terms, owner, adopted));
}

/** Tells the observer how an acquire ends. */
export function observed(observer: Observer | undefined, key: string, acquiring: () => Promise<Grant>): Promise<Grant> {
  if (!observer?.acquired) return acquiring();
  const begun = now();
  const end = (error?: unknown): void => guard(() => observer.acquired?.(key, now() - begun, error));
  return acquiring().then((grant) => {
    end();
    return grant;
  }, (error: unknown) => {
    end(error);
    throw error;
  });
}

async function take({ core, task }: Taker, key: string, terms: Terms, owner = "", adopted = 0): Promise<Grant> {
  if (terms.signal?.aborted) throw terms.signal.reason;
  const held = task?.held.get(key);
  if (held?.claim.phase === "held") {
    await held.enter(terms.mode);
    return new Grant(held);
  }
  const name = owner || (task && core.state.usableOwner(task));
  const holding = await hold(core, key, terms, name, adopted, task);
  if (task) {
    for (const [of, it] of task.held) if (it.claim.phase !== "held") task.held.delete(of);
    task.held.set(key, holding);
  }
  return new Grant(holding);
}

/** Acquires a lock for an owner; by default for a fresh one. */
export async function hold(core: Core, key: string, terms: Terms, owner = "", adopted = 0, task?: TaskOwner): Promise<Holding> {
  const server = core.servers.only ?? await serverOf(core, key);
  return new Holding(core, server, key, owner || core.freshOwner(), terms, task, adopted).acquire();
}

async function serverOf(core: Core, key: string): Promise<Server> {
  const found = await core.servers.find(key);
  if (found instanceof Fault) throw found.error(key, core.library.address);
  return found;
}

/** A lock of one key. */
export class Lock {
  /** The key, with the prefix. */
  readonly key: string;
  readonly #options: LockOptions;
  readonly #terms: Terms;
  readonly #termsOf: (options: LockOptions) => Terms;
  readonly #acquire: (key: string, terms: Terms) => Promise<Grant>;

  /** @internal */
  constructor(key: string, options: LockOptions, termsOf: (options: LockOptions) => Terms,
    acquire: (key: string, terms: Terms) => Promise<Grant>) {
    this.key = key;
    this.#options = options;
    this.#terms = termsOf(options);
    this.#termsOf = termsOf;
    this.#acquire = acquire;
  }

  /**
   * Acquires the lock: waits in line until the time to wait is over (LockBusy) or the signal is aborted (its reason).
   * Whatever it rejects with, neither a hold nor a wait is left.
   */
  acquire(options?: LockOptions): Promise<Grant> {
    return this.#acquire(this.key, options ? this.#termsOf({ ...this.#options, ...options }) : this.#terms);
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
   * Works under the lock, and releases it. An error of the work is thrown as it is, with what went wrong with the lock as
   * its `cause`; if the work succeeds, an error of the lock is thrown. When the lock is lost, `grant.signal` is aborted.
   */
  async run<T>(work: (grant: Grant) => T | Promise<T>, options?: LockOptions): Promise<T> {
    const grant = await this.acquire(options);
    return await runUnder([grant], () => work(grant));
  }
}

/** Does the work, and releases the grants: the last one first. */
export async function runUnder<T>(grants: readonly Grant[], work: () => T | Promise<T>): Promise<T> {
  let result: T | undefined;
  let failure: { readonly error: unknown } | undefined;
  try {
    result = await work();
  } catch (error) {
    failure = { error };
  }
  for (let i = grants.length - 1; i >= 0; i -= 1) {
    try {
      await grants[i]?.release();
    } catch (error) {
      if (failure) attach(failure.error, error);
      failure ??= { error };
    }
  }
  if (failure) throw failure.error;
  return result as T;
}
