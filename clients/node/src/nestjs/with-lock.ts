/** A decorator for methods that work under a lock. */

import { Inject } from "@nestjs/common";
import { LockBusy, LockMisuse } from "../errors.ts";
import type { Lock } from "../lock.ts";
import type { Locks } from "../locks.ts";
import type { LockOptions } from "../options.ts";
import { runnerToken } from "./module.ts";
import { LocksRunner } from "./runner.ts";

export interface WithLockOptions extends Omit<LockOptions, "signal"> {
  /** The name of the locks, where the application has several. */
  readonly locks?: string | undefined;
  /** Shared with other readers, or one of so many permits. */
  readonly shared?: boolean | undefined;
  readonly of?: number | undefined;
  /** What a call does when others have the lock and the time to wait is over: it rejects with LockBusy, or does nothing. */
  readonly ifBusy?: "throw" | "skip" | undefined;
}

type Method<A extends unknown[], R> = (...given: A) => R;
/** The key, or several, or what makes them of the method's arguments. */
export type KeyOf<A extends unknown[]> = string | readonly string[] | ((...given: A) => string | readonly string[]);

/**
 * Has the method hold the lock while it works. It returns a promise; `currentGrant()` tells it of its grant: the fencing
 * token, and the signal that tells of a loss. Several keys are taken in one order, or none.
 */
export function WithLock<A extends any[]>(key: KeyOf<A>, { locks: name, shared, of, ifBusy, ...options }: WithLockOptions = {}) {
  const place = Symbol(`LocksRunner ${name ?? ""}`);
  const modeOf = (locks: Locks, it: string): Lock =>
    of !== undefined ? locks.permit(it, { ...options, of }) : shared ? locks.shared(it, options) : locks.lock(it, options);
  return <R>(target: object, property: string | symbol, descriptor: TypedPropertyDescriptor<Method<A, Promise<R>>>): void => {
    const method = descriptor.value;
    if (typeof method !== "function") throw new TypeError("WithLock is for methods");
    Inject(runnerToken(name))(target, place);
    const locked = async function (this: Record<typeof place, LocksRunner>, ...given: A): Promise<R | undefined> {
      const runner = this[place];
      if (!runner) throw new LockMisuse(`${String(property)}: nothing was injected; is the object made by Nest, with LocksModule imported?`);
      const found = typeof key === "function" ? key.apply(this, given) : key;
      if (typeof found !== "string" && (shared || of !== undefined)) {
        throw new LockMisuse(`${String(property)}: several locks are taken exclusively; \`shared\` and \`of\` go with one key`);
      }
      let hasBegun = false;
      const work = async (): Promise<R> => {
        hasBegun = true;
        return promised(await method.apply(this, given), property);
      };
      try {
        return await runner.run((locks) => (typeof found === "string"
          ? modeOf(locks, found).run((grant) => LocksRunner.under([grant], work))
          : locks.all(found, options, (grants) => LocksRunner.under(grants, work))));
      } catch (error) {
        if (ifBusy === "skip" && !hasBegun && error instanceof LockBusy) return undefined;
        throw error;
      }
    };
    Object.defineProperty(locked, "name", { value: method.name });
    copyMetadata(method, locked);
    descriptor.value = locked as unknown as Method<A, Promise<R>>;
  };
}

function promised<R>(result: R, property: string | symbol): R {
  if (typeof (result as { subscribe?: unknown } | undefined)?.subscribe === "function") {
    throw new LockMisuse(`${String(property)}: an Observable works after the method has returned, without its lock; return a promise`);
  }
  return result;
}

/** What decorators below this one have noted on the method, such as its route. */
function copyMetadata(from: object, to: object): void {
  const { getOwnMetadataKeys, getOwnMetadata, defineMetadata } = Reflect as unknown as {
    getOwnMetadataKeys(of: object): unknown[];
    getOwnMetadata(key: unknown, of: object): unknown;
    defineMetadata(key: unknown, value: unknown, of: object): void;
  };
  for (const key of getOwnMetadataKeys(from)) defineMetadata(key, getOwnMetadata(key, from), to);
}
