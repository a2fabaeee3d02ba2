/** A task: one owner for several locks. */

import type { Calls } from "./calls.ts";
import { Lock, type Taker, takeAlone } from "./lock.ts";
import { type LockOptions, type LocksOptions, checkLimit, freshOwner, wishOf } from "./options.ts";
import { Owner } from "./owner.ts";

/** What a task is given by its `Locks`. */
export interface TaskContext {
  readonly calls: Calls;
  readonly defaults: LocksOptions;
  readonly service: string;
}

/**
 * One owner for all the locks that it takes. It may take a lock again that it holds, and a wait that would never
 * end, because tasks wait for each other in a circle, is refused with LockDeadlock. Hand it to what works together,
 * and to nothing that runs beside that: to the server it is one and the same.
 */
export class Task {
  readonly #owner: Owner;
  readonly #taker: Taker;

  /** @internal */
  constructor({ calls, defaults, service }: TaskContext) {
    const owner = (this.#owner = new Owner(calls, { fresh: () => freshOwner(service) }));
    this.#taker = {
      scope: calls,
      wish: (options) => wishOf(options, defaults),
      take: (name, mode, wish, stop) => (typeof mode === "object" || wish.owner !== undefined
        ? takeAlone(calls, service, name, mode, wish, stop) : owner.take(name, mode, wish, stop)),
    };
  }

  /**
   * The owner of the locks that are taken next; permits have one each. It is another one after a call whose end is not
   * known, because the server did not answer: what the task holds by then stays its own.
   */
  get owner(): string {
    return this.#owner.name;
  }

  /** A lock that one holder has alone. */
  lock(key: string, options: LockOptions = {}): Lock {
    return new Lock(this.#taker, key, "exclusive", options);
  }

  /** A lock that readers share. */
  shared(key: string, options: LockOptions = {}): Lock {
    return new Lock(this.#taker, key, "shared", options);
  }

  /** A permit of a semaphore: each one has an owner of its own. */
  permit(key: string, options: LockOptions & { readonly of: number }): Lock {
    const { of, ...others } = options;
    return new Lock(this.#taker, key, { limit: checkLimit(of) }, others);
  }
}
