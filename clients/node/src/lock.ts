/** A lock: a key, a mode and options. Making one calls nothing. */

import type { Core } from "./core.ts";
import { LockBusy, attach } from "./errors.ts";
import { Grant } from "./grant.ts";
import { Holding } from "./holding.ts";
import { type LockOptions, type Terms, checkKey, guard, termsOf } from "./options.ts";
import type { Server } from "./server.ts";
import type { TaskOwner, Words } from "./state/claim.ts";
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
export async function acquire(taker: Taker, key: string, terms: Terms, owner = "", adopted = 0): Promise<Grant> {
  const { observer } = taker.core.settings;
  if (!observer?.acquired) return take(taker, key, terms, owner, adopted);
  const begun = now();
  try {
    const grant = await take(taker, key, terms, owner, adopted);
    guard(() => observer.acquired?.(key, now() - begun));
    return grant;
  } catch (error) {
    guard(() => observer.acquired?.(key, now() - begun, error));
    throw error;
  }
}

async function take({ core, task }: Taker, key: string, terms: Terms, owner: string, adopted: number): Promise<Grant> {
  if (terms.signal?.aborted) throw terms.signal.reason;
  const held = task?.held.get(key);
  if (held?.claim.phase === "held") {
    await held.enter(terms.mode);
    return new Grant(held);
  }
  const server = core.servers.only ?? await serverOf(core, key);
  const name = owner || (task && core.state.usableOwner(task)) || core.freshOwner();
  const holding = new Holding(core, server, key, name, terms, task, adopted);
  await holding.acquire();
  if (task) {
    for (const [of, it] of task.held) if (it.claim.phase !== "held") task.held.delete(of);
    task.held.set(key, holding);
  }
  return new Grant(holding);
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
  readonly #taker: Taker;
  readonly #mode: Words;
  readonly #options: LockOptions;
  readonly #terms: Terms;

  /** @internal */
  constructor(taker: Taker, key: string, mode: Words, options: LockOptions) {
    this.key = taker.prefix + checkKey(key);
    this.#taker = taker;
    this.#mode = mode;
    this.#options = options;
    this.#terms = this.#termsOf(options);
  }

  /**
   * Acquires the lock: waits in line until the time to wait is over (LockBusy) or the signal is aborted (its reason).
   * Whatever it rejects with, neither a hold nor a wait is left.
   */
  acquire(options?: LockOptions): Promise<Grant> {
    return acquire(this.#taker, this.key, options ? this.#termsOf({ ...this.#options, ...options }) : this.#terms);
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
    return runUnder([grant], () => work(grant));
  }

  #termsOf(options: LockOptions): Terms {
    return termsOf(options, this.#mode, this.#taker.core.settings.lease);
  }
}

/** Does the work, and releases the grants: the last one first. */
export async function runUnder<T>(grants: readonly Grant[], work: () => T | Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await work();
  } catch (error) {
    const failure = await releaseAll(grants);
    if (failure) attach(error, failure);
    throw error;
  }
  const failure = await releaseAll(grants);
  if (failure) throw failure;
  return result;
}

/** Releases grants, the last one first. Resolves with the first error, when all have been tried. */
async function releaseAll(grants: readonly Grant[]): Promise<unknown> {
  let failure: unknown;
  for (let i = grants.length - 1; i >= 0; i -= 1) {
    try {
      await grants[i]?.release();
    } catch (error) {
      failure ??= error;
    }
  }
  return failure;
}
