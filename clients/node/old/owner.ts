/** One owner: what it has of each lock in this process. */

import type { Calls } from "./calls.ts";
import { LockBusy, LockUnavailable } from "./errors.ts";
import { Grant } from "./grant.ts";
import { type Holding, type Mode, Turn } from "./holding.ts";
import type { Wish } from "./options.ts";
import type { Stop } from "./stop.ts";
import { now } from "./time.ts";

interface Place {
  readonly turn: Turn;
  holding: Holding | undefined;
  /** How many calls are under way. */
  calls: number;
}

/** An owner with a name that the user gave, or with names that are made: another one where the last one cannot be used again. */
export type NameOf = { readonly named: string } | { readonly fresh: () => string };

/** It may take a lock again that it holds: the holds are counted. */
export class Owner {
  readonly #calls: Calls;
  readonly #nameOf: NameOf;
  readonly #places = new Map<string, Place>();
  readonly #idle: () => void;
  #name: string;

  /** `idle` is called whenever nothing is held or asked any more. */
  constructor(calls: Calls, nameOf: NameOf, idle: () => void = () => {}) {
    this.#calls = calls;
    this.#nameOf = nameOf;
    this.#idle = idle;
    this.#name = "named" in nameOf ? nameOf.named : nameOf.fresh();
  }

  /** For what it asks next. */
  get name(): string {
    return this.#name;
  }

  /** Takes a lock, or takes it again. */
  take(name: string, mode: Mode, wish: Wish, stop: Stop): Promise<Grant> {
    const limit = this.#calls.limitOf(wish);
    return this.#inTurn(name, wish, limit, stop, async (place, rest, held) => {
      const present = place.holding;
      if (present?.isLive) return this.#again(present, held, () => this.#calls.reenter(present, mode, rest, limit, stop));
      const owner = this.#name;
      return this.#at(place, name, await this.#calls.acquire({ name, mode, owner, isNamed: "named" in this.#nameOf, wish: rest, limit,
        turn: place.turn, onLate: () => { this.#spend(owner); } }, stop));
    });
  }

  /** Goes on with a grant that is known by its token. */
  adopt(name: string, token: number, wish: Wish, hasLease: boolean, limit: number, stop: Stop): Promise<Grant> {
    return this.#inTurn(name, wish, limit, stop, async (place, rest, held) => {
      const present = place.holding;
      if (present?.isLive && present.token === token) {
        return this.#again(present, held, () => adoptAgain(this.#calls, present, rest, hasLease, limit, stop));
      }
      const request = { name, mode: "exclusive", owner: this.#name, isNamed: true, wish: rest, limit, turn: place.turn } as const;
      return this.#at(place, name, await this.#calls.adopt(request, token, hasLease, stop));
    });
  }

  /** One more hold of a grant, which the call has claimed before where it was held then. */
  async #again(present: Holding, held: Holding | undefined, enter: () => Promise<void>): Promise<Grant> {
    if (present !== held) present.claim();
    try {
      await enter();
    } catch (error) {
      if (present !== held) present.unclaim();
      throw error;
    }
    return new Grant(this.#calls, present);
  }

  #at(place: Place, name: string, holding: Holding): Grant {
    place.holding = holding;
    holding.whenEnded(() => {
      if (place.holding !== holding) return;
      place.holding = undefined;
      this.#forget(place, name);
    });
    return new Grant(this.#calls, holding);
  }

  /** Calls for one lock go one after the other, each within its own time. */
  async #inTurn(name: string, wish: Wish, limit: number, stop: Stop,
    enter: (place: Place, rest: Wish, held: Holding | undefined) => Promise<Grant>): Promise<Grant> {
    const place = this.#places.get(name) ?? { turn: new Turn(), holding: undefined, calls: 0 };
    this.#places.set(name, place);
    place.calls += 1;
    const held = place.holding;
    held?.claim(); // a release that is called from now on leaves it to this call
    const until = now() + wish.wait;
    try {
      return await place.turn.takeBy(limit, () => {
        stop.throwIfStopped();
        return enter(place, { ...wish, wait: Math.max(0, until - now()) }, held);
      }, () => (place.calls > 1 && !place.turn.isClearing
        ? new LockBusy(`${name}: another call of this owner is under way`, { key: name }) : notInTime(name)), stop);
    } catch (error) {
      held?.unclaim();
      throw error;
    } finally {
      place.calls -= 1;
      this.#forget(place, name);
    }
  }

  /** A release of all that this owner has may still come: it asks for nothing more by this name. */
  #spend(owner: string): void {
    if ("fresh" in this.#nameOf && this.#name === owner) this.#name = this.#nameOf.fresh();
  }

  #forget(place: Place, name: string): void {
    const { turn } = place;
    // A release that is under way is done before the next call.
    void turn.free.then(() => {
      if (place.calls > 0 || place.holding || this.#places.get(name) !== place) return;
      if (turn.isBusy) return this.#forget(place, name);
      this.#places.delete(name);
      if (this.#places.size === 0) this.#idle();
    });
  }
}

const notInTime = (name: string): LockUnavailable =>
  new LockUnavailable(`${name}: what is to be given back before was not answered in time`, { key: name });

/** One more hold of a grant that this process has, for who adopts it; claimed before, and in its turn. */
async function adoptAgain(calls: Calls, here: Holding, wish: Wish, hasLease: boolean, limit: number, stop: Stop): Promise<void> {
  // Who asks to share keeps the grant's mode, whichever that is.
  await calls.reenter(here, "shared", hasLease ? wish : { ...wish, lease: 1 }, limit, stop);
  if (wish.keep && !here.keep) await calls.renewInTurn(here, { keep: wish.keep });
}

/** The owners that users have named: in this process each is one, whoever asks in its name. */
export class NamedOwners {
  readonly #calls: Calls;
  readonly #owners = new Map<string, Owner>();

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  of(named: string): Owner {
    const known = this.#owners.get(named);
    if (known) return known;
    const owner: Owner = new Owner(this.#calls, { named }, () => { this.#owners.delete(named); });
    this.#owners.set(named, owner);
    return owner;
  }

  /** Goes on with a grant that is known by its owner and token; with one of a task or a fresh owner of this process, too. */
  async adopt(owner: string, name: string, token: number, wish: Wish, hasLease: boolean, stop: Stop): Promise<Grant> {
    const limit = this.#calls.limitOf(wish);
    const here = this.#calls.held(name, owner, token);
    if (here && !here.isNamed) {
      here.claim();
      try {
        const isAdopted = await here.turn.takeBy(limit, async () => {
          if (!here.isLive) return false; // it was let go of before
          await adoptAgain(this.#calls, here, wish, hasLease, limit, stop);
          return true;
        }, () => notInTime(name), stop);
        if (isAdopted) return new Grant(this.#calls, here);
      } catch (error) {
        here.unclaim();
        throw error;
      }
    }
    return this.of(owner).adopt(name, token, wish, hasLease, limit, stop);
  }
}
