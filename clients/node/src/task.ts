/** A task: one owner for several locks. */

import type { Calls } from "./calls.ts";
import { LockBusy } from "./errors.ts";
import { Grant } from "./grant.ts";
import { type Holding, type Mode, Turn } from "./holding.ts";
import { Lock, type Taker, takeAlone } from "./lock.ts";
import { type LockOptions, type LocksOptions, type Wish, checkLimit, freshOwner, wishOf } from "./options.ts";
import { type Stop, TimeUp } from "./stop.ts";
import { now } from "./time.ts";

interface Place {
  readonly turn: Turn;
  holding: Holding | undefined;
  /** How many calls are under way. */
  calls: number;
}

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
  /** The owner of all locks of the task; permits have one each. */
  readonly owner: string;
  readonly #context: TaskContext;
  readonly #places = new Map<string, Place>();
  readonly #taker: Taker;

  /** @internal */
  constructor(context: TaskContext) {
    this.#context = context;
    this.owner = freshOwner(context.service);
    const { calls, defaults } = context;
    this.#taker = { scope: calls, wish: (options) => wishOf(options, defaults), take: (name, mode, wish, stop) => this.#take(name, mode, wish, stop) };
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

  async #take(name: string, mode: Mode, wish: Wish, stop: Stop): Promise<Grant> {
    const { calls, service } = this.#context;
    if (typeof mode === "object" || wish.owner !== undefined) return takeAlone(calls, service, name, mode, wish, stop);
    const place = this.#places.get(name) ?? { turn: new Turn(), holding: undefined, calls: 0 };
    this.#places.set(name, place);
    place.calls += 1;
    const held = place.holding;
    held?.claim(); // a release that is called from now on leaves it to this call
    const until = now() + wish.wait;
    try {
      return await this.#inTurn(place, name, wish, stop, () => {
        const rest = { ...wish, wait: Math.max(0, until - now()) };
        return this.#enter(place, name, mode, rest, stop, held);
      });
    } catch (error) {
      held?.unclaim();
      throw error;
    } finally {
      place.calls -= 1;
      if (place.calls === 0 && !place.holding) this.#places.delete(name);
    }
  }

  /** Calls of one task for one lock go one after the other. */
  #inTurn<T>(place: Place, name: string, wish: Wish, stop: Stop, enter: () => Promise<T>): Promise<T> {
    let isLate = false;
    const until = now() + Math.max(wish.wait, this.#context.calls.tryLimit);
    return new Promise<T>((resolve, reject) => {
      const free = place.turn.free;
      const entered = place.turn.take(async () => (isLate ? undefined : { is: await enter() }));
      stop.race(free, until).then(
        () => entered.then((it) => { if (it) resolve(it.is); }, reject),
        (error: unknown) => {
          isLate = true;
          entered.catch(() => {});
          reject(error instanceof TimeUp
            ? new LockBusy(`${name}: another call of this task is under way`, { key: name }) : error as Error);
        },
      );
    });
  }

  async #enter(place: Place, name: string, mode: Mode, wish: Wish, stop: Stop, held?: Holding): Promise<Grant> {
    const { calls } = this.#context;
    stop.throwIfStopped();
    const present = place.holding;
    if (present?.isLive) {
      if (present !== held) present.claim();
      try {
        await calls.reenter(present, mode, wish, stop);
      } catch (error) {
        if (present !== held) present.unclaim();
        throw error;
      }
      return new Grant(calls, present);
    }
    const holding = await calls.acquire({ name, mode, owner: this.owner, isFresh: true, wish, turn: place.turn }, stop);
    place.holding = holding;
    holding.whenEnded(() => {
      if (place.holding !== holding) return;
      place.holding = undefined;
      if (place.calls === 0) this.#places.delete(name);
    });
    return new Grant(calls, holding);
  }
}
