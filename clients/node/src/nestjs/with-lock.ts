/** A decorator for methods that work under a lock. */

import { Inject } from "@nestjs/common";
import { LockBusy, LockMisuse } from "../errors.ts";
import type { Locks } from "../locks.ts";
import { type LockOptions, time } from "../options.ts";
import { runnerToken } from "./module.ts";
import type { Hold, LocksRunner } from "./runner.ts";

/**
 * Options of {@link WithLock}. All times are in milliseconds.
 *
 * @see {@link WithLock} for an example
 */
export interface WithLockOptions extends Omit<LockOptions, "signal"> {
  /** The name of the locks, where the application has several. */
  readonly locks?: string | undefined;
  /** Shared with other readers. */
  readonly shared?: boolean | undefined;
  /** One of so many permits. */
  readonly of?: number | undefined;
  /**
   * If others hold the lock for all of `wait`, a call rejects with LockBusy ("throw"), or does nothing and resolves with
   * undefined ("skip"). With "skip" it does not wait, unless `wait` says so.
   */
  readonly ifBusy?: "throw" | "skip" | undefined;
  /**
   * A call that succeeds keeps its lock until so many ms after it began: 0, or 500 with "skip". So a short job runs once
   * though the clocks of the instances differ.
   */
  readonly atLeast?: number | undefined;
}

/**
 * A method that {@link WithLock} is for: it returns a promise.
 *
 * @see {@link WithLock} for an example
 */
export type Method<A extends unknown[], R> = (...given: A) => R;
/**
 * The key, or several, or a function that makes them of the method's first arguments. They are without the prefix.
 *
 * @see {@link WithLock} for an example
 */
export type KeyOf<A extends unknown[]> = string | readonly string[] | ((...given: A) => string | readonly string[]);

/**
 * The method holds the lock while it works, and returns a promise. `currentGrant()` is its grant, with the fencing token and
 * the signal of a loss. Several keys are acquired in one order, all or none. A method that is called by one that holds
 * the same lock rejects with LockMisuse: it would wait for itself.
 *
 * The method rejects with the errors of `Lock.run`: LockBusy if the time to wait is over, LockLost if the lock was lost while
 * it worked, and so on.
 *
 * @example
 * ```ts
 * import { Injectable } from "@nestjs/common";
 * import { WithLock, currentGrant } from "redis-lock-client/nestjs";
 *
 * @Injectable()
 * class Orders {
 *   @WithLock((id: number) => `lock:orders:${id}`, { wait: 5000 })
 *   async pay(id: number): Promise<void> {
 *     console.log("order", id, "fence writes with", currentGrant()?.token);
 *   }
 *
 *   @WithLock("lock:report", { ifBusy: "skip", atLeast: 60_000 }) // one of all instances
 *   async report(): Promise<void> {}
 * }
 * ```
 *
 * @throws LockMisuse if an option is wrong; TypeError on what is no method
 */
export function WithLock<A extends any[]>(key: KeyOf<A>, given: WithLockOptions = {}) {
  const { locks: locksName, shared, of, ifBusy = "throw", atLeast = ifBusy === "skip" ? 500 : 0, ...rest } = given;
  const options = ifBusy === "skip" ? { wait: 0, ...rest } : rest;
  const isExclusive = !shared && of === undefined;
  time("atLeast", atLeast, 0);
  const place = Symbol(`LocksRunner ${locksName ?? ""}`);
  const holdOf = <R>(locks: Locks, keys: readonly string[]): Hold<R> => {
    const [only = ""] = keys;
    if (keys.length !== 1) return (work) => locks.all(keys, work, options);
    const lock = of !== undefined ? locks.permit(only, { ...options, of })
      : shared ? locks.shared(only, options) : locks.lock(only, options);
    return (work) => lock.run((grant) => work([grant]));
  };
  return <R>(target: object, property: string | symbol, descriptor: TypedPropertyDescriptor<Method<[...A, ...any[]], Promise<R>>>): void => {
    const method = descriptor.value;
    const name = String(property);
    if (typeof method !== "function") throw new TypeError("WithLock is for methods");
    Inject(runnerToken(locksName))(target, place);
    const locked = async function (this: Record<typeof place, LocksRunner>, ...args: [...A, ...any[]]): Promise<R | undefined> {
      const runner = this[place];
      if (!runner) throw new LockMisuse(`${name}: nothing was injected; is the object made by Nest, with LocksModule imported?`);
      const found = typeof key === "function" ? key.apply(this, args as unknown as A) : key;
      const keys = typeof found === "string" ? [found] : found;
      if (keys.length !== 1 && !isExclusive) {
        throw new LockMisuse(`${name}: several locks are acquired exclusively; \`shared\` and \`of\` go with one key`);
      }
      runner.refuseReentry(keys, name);
      let hasBegun = false;
      const work = async (): Promise<R> => {
        hasBegun = true;
        const result = await method.apply(this, args);
        if (typeof (result as { subscribe?: unknown } | undefined)?.subscribe === "function") {
          throw new LockMisuse(`${name}: an Observable works after the method has returned, without its lock; return a promise`);
        }
        return result;
      };
      try {
        return await runner.run(holdOf<R>(runner.locks, keys), work, atLeast);
      } catch (error) {
        if (ifBusy === "skip" && !hasBegun && error instanceof LockBusy) return undefined;
        throw error;
      }
    };
    Object.defineProperty(locked, "name", { value: name });
    copyMetadata(method, locked);
    descriptor.value = locked as unknown as Method<[...A, ...any[]], Promise<R>>;
  };
}

/** What decorators below this one have set on the method, such as its route. */
function copyMetadata(from: object, to: object): void {
  const { getOwnMetadataKeys, getOwnMetadata, defineMetadata } = Reflect as unknown as {
    getOwnMetadataKeys(of: object): unknown[];
    getOwnMetadata(key: unknown, of: object): unknown;
    defineMetadata(key: unknown, value: unknown, of: object): void;
  };
  for (const key of getOwnMetadataKeys(from)) defineMetadata(key, getOwnMetadata(key, from), to);
}
