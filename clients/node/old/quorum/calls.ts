/** The calls of a quorum: a lock is held when more than half of the servers have granted it with one token. */

import type { Driver } from "../driver.ts";
import { LockBusy, LockLost, LockMisuse, LockUnavailable } from "../errors.ts";
import type { Change, GrantCalls } from "../grant.ts";
import { Holding } from "../holding.ts";
import { type LocksOptions, type Wish, freshOwner } from "../options.ts";
import { Scope } from "../scope.ts";
import { Stop } from "../stop.ts";
import { type Timer, later, now } from "../time.ts";
import { Attempt, type Failure, type Obtained, type Rest } from "./attempt.ts";
import { Member } from "./member.ts";
import { type Round, askAll } from "./round.ts";
import { Pauses, waitForTurn } from "./turns.ts";
import type { OnVotes } from "./part.ts";

/** The least that a server is given to answer, in ms: else good servers would seem to be down. */
const LEAST_LIMIT = 20;

/** What an acquire is to get. */
export interface QuorumWish extends Wish {
  readonly onVotes: OnVotes | undefined;
}

/** The servers' clocks may run a little faster than this one: their leases count from so many ms earlier. */
const drift = (lease: number): number => lease / 100 + 2;

export class QuorumCalls extends Scope implements GrantCalls {
  readonly members: readonly Member[];
  readonly #reply: number;
  readonly #service: string;
  /** What renews the grants that are kept. */
  readonly #renewals = new Map<Holding, Timer | undefined>();
  readonly #onVotes = new WeakMap<Holding, OnVotes>();
  readonly #rests = new WeakMap<Holding, Rest>();

  constructor(drivers: readonly Driver[], options: LocksOptions) {
    super(options);
    this.#reply = options.replyTimeout ?? 1000;
    this.#service = options.service ?? "app";
    this.members = drivers.map((driver, place) => new Member(driver, place, this.#reply,
      (type, { address }, error) => this.tell({ type, server: address, ...(error ? { error } : {}) })));
  }

  /** Rejects with a LockError, or with what stopped it: then neither a hold nor a wait is left. */
  async acquire(name: string, wish: QuorumWish, stop: Stop): Promise<Holding> {
    const until = now() + wish.wait;
    const limit = this.limitOf(wish);
    const pauses = new Pauses();
    let line: Member | undefined;
    for (;;) {
      const began = now();
      const owner = freshOwner(this.#service);
      const place = line && { member: line, name, owner, lease: wish.lease, until };
      const isMine = !place || await waitForTurn(place, stop, (task) => this.inBackground(task));
      const used = isMine ? owner : freshOwner(this.#service);
      const result = await this.#attempt(name, used, wish, stop);
      if ("token" in result) {
        const holding = this.#held(name, used, wish, result);
        if (holding) return holding;
      }
      const failure: Failure = "token" in result ? { why: "late" } : result;
      if (failure.why === "refused") throw failure.error;
      if (failure.why === "too few" ? now() >= limit : now() >= until) {
        if (failure.why === "too few") throw failure.error;
        throw new LockBusy(`${name}: no majority of the servers has granted it`, { key: name });
      }
      line = failure.why === "busy" ? failure.first : undefined;
      await pauses.take(now() - began, failure.why === "too few" ? limit : until, stop);
    }
  }

  /** Goes on with a grant that another client has let go of. */
  async adopt(name: string, owner: string, token: number, wish: QuorumWish, stop: Stop): Promise<Holding> {
    const { lease } = wish;
    const until = this.limitOf(wish);
    const here = this.held(name, owner, token);
    if (here) {
      here.claim(); // one more hold
      here.count += 1;
      try {
        await stop.race(this.renew(here, { lease }));
        if (wish.keep && !this.#renewals.has(here)) this.#plan(here);
        return here;
      } catch (error) {
        here.count -= 1;
        here.unclaim();
        throw error;
      }
    }
    const rest = new Stop();
    const start = await this.#askToRenew({ name, owner, token }, lease, { until, stop, rest });
    const holding = this.#held(name, owner, wish, { token, start, rest: () => rest.stop("overtaken") });
    if (!holding) throw new LockLost(`${name}: its lease has passed`, { key: name });
    return holding;
  }

  async check(holding: Holding): Promise<void> {
    const { name, token } = holding;
    await this.#inTurn(holding, async (until) => {
      const { lease } = holding;
      if (this.#renewals.has(holding)) {
        holding.proved((await this.#renewOnAll(holding, lease, until)) - drift(lease), lease);
      } else {
        await askAll(this.members, { name, kind: "renew", ms: this.#limit(lease), until,
          words: (prefix) => ["LOCK.FENCE", prefix + name, token] });
      }
    });
    if (this.#renewals.has(holding)) this.#plan(holding);
  }

  async renew(holding: Holding, { lease: given, mode, keep }: Change): Promise<void> {
    const { name } = holding;
    if (mode) throw new LockMisuse(`${name}: on several servers a lock is not shared`, { key: name });
    try {
      await this.#inTurn(holding, async (until) => {
        const lease = given ?? holding.lease;
        holding.mayEndIn(lease - drift(lease));
        const start = await this.#renewOnAll(holding, lease, until);
        holding.setFixed(start - drift(lease), lease);
      });
    } catch (error) {
      if (this.#renewals.has(holding)) this.#plan(holding); // soon, if some have it for a shorter time now
      throw error;
    }
    if (keep === 0) this.#renewals.get(holding)?.cancel();
    if (keep === 0) this.#renewals.delete(holding);
    if (this.#renewals.has(holding)) this.#plan(holding);
  }

  async detach(holding: Holding): Promise<void> {
    holding.mustBeTheLast();
    holding.released();
  }

  async release(holding: Holding, signal?: AbortSignal): Promise<void> {
    if (holding.loss) throw holding.loss;
    const { name } = holding;
    holding.count -= 1;
    holding.unclaim();
    if (holding.isLive) return; // others here hold it
    const stop = new Stop(signal);
    const released = this.#releaseOnAll(holding, now() + this.releaseLimit);
    this.inBackground(released);
    try {
      await stop.race(released);
      this.tellRelease(holding);
    } catch (error) {
      const failure = error instanceof LockLost ? new LockLost(`${name}: lost before its release`, { key: name, cause: error }) : error;
      this.tellRelease(holding, failure);
      throw failure;
    } finally {
      stop.end();
    }
  }

  protected override abandon(holding: Holding): Promise<unknown> {
    return this.#releaseOnAll(holding, now() + this.releaseLimit).then(() => undefined, (error: unknown) => error);
  }

  protected override closeConnections(): void {
    for (const member of this.members) member.close();
  }

  /**
   * How long a server may take to answer a call about a lock with this lease: far below it, so that most of the lease is
   * left when a majority has answered. Two rounds stay within a reply's time.
   */
  #limit(lease: number): number {
    return Math.min(Math.max(lease / 10, LEAST_LIMIT), this.#reply / 2);
  }

  async #attempt(name: string, owner: string, { lease, onVotes }: QuorumWish, stop: Stop): Promise<Obtained | Failure> {
    const ms = this.#limit(lease);
    const attempt = new Attempt(this.members, { name, owner, lease, ms });
    if (onVotes) onVotes(attempt.votes());
    let isHeld = false;
    try {
      const result = await attempt.finish(stop);
      isHeld = "token" in result;
      return result;
    } finally {
      const settled = attempt.settled();
      this.inBackground(settled);
      // Who is told that it has failed has left nothing on a server that answers.
      if (!isHeld) await new Stop().race(settled, now() + ms).catch(() => {});
    }
  }

  /** Nothing where so much time has passed that the lease cannot be trusted any more. */
  #held(name: string, owner: string, wish: QuorumWish, { token, start, rest }: Obtained): Holding | undefined {
    const { lease, keep, atMost, onVotes } = wish;
    const proof = start - drift(lease);
    const holding = new Holding({ key: name, name, owner, isNamed: false, token, lease, keep: 0, reply: this.#reply }, proof);
    this.#rests.set(holding, rest);
    if (now() >= holding.knownUntil) {
      this.#giveBack(holding);
      return undefined;
    }
    this.hold(holding);
    if (onVotes) this.#onVotes.set(holding, onVotes);
    holding.onLost(() => {
      if (!this.isClosing) this.#giveBack(holding);
    });
    holding.whenEnded(() => {
      this.#renewals.get(holding)?.cancel();
      this.#renewals.delete(holding);
    });
    if (atMost < Infinity) holding.endAt(start + atMost);
    holding.watch();
    if (keep) this.#plan(holding);
    return holding;
  }

  /** Renews when a third of the lease has passed, and again soon where that fails. */
  #plan(holding: Holding, due = holding.knownUntil - (holding.lease * 2) / 3): void {
    this.#renewals.get(holding)?.cancel();
    if (!holding.isLive) return;
    this.#renewals.set(holding, later(due - now(), () => {
      const renewed = this.#inTurn(holding, async () => {
        const { lease } = holding;
        const start = await this.#renewOnAll(holding, lease, now());
        holding.proved(start - drift(lease), lease);
      });
      renewed.then(
        () => { if (this.#renewals.has(holding)) this.#plan(holding); },
        () => {
          const left = holding.knownUntil - now();
          if (this.#renewals.has(holding)) this.#plan(holding, now() + Math.min(Math.max(left / 10, 5), 1000));
        },
      );
    }));
  }

  /** One renewal after another: the lease of the last one is what all servers have. In all within the time of a reply. */
  #inTurn(holding: Holding, call: (until: number) => Promise<void>): Promise<void> {
    const { name } = holding;
    const until = now() + this.#reply;
    return this.#losing(holding, () => holding.turn.takeBy(until, async () => {
      holding.mustBeLive();
      await call(until);
    }, (cause) => new LockUnavailable(`${name}: another call was not answered in time`, { key: name, cause })));
  }

  async #losing(holding: Holding, call: () => Promise<void>): Promise<void> {
    try {
      await call();
    } catch (error) {
      if (error instanceof LockLost) holding.lose(error.message, error);
      throw holding.loss ?? error;
    }
    if (holding.loss) throw holding.loss;
  }

  /** Gives the time at which a majority was asked. */
  #renewOnAll(holding: Holding, lease: number, until: number): Promise<number> {
    const rest = new Stop();
    this.#rests.get(holding)?.("renewal");
    this.#rests.set(holding, () => rest.stop("overtaken"));
    return this.#askToRenew(holding, lease, { until, rest, onVotes: this.#onVotes.get(holding) });
  }

  /**
   * A server that does not have the grant any more does not get it back: somebody else may have had the lock there in
   * between, and a majority pieced together like that would hide it.
   */
  #askToRenew({ name, owner, token }: Pick<Holding, "name" | "owner" | "token">, lease: number,
    how: Pick<Round, "until" | "stop" | "rest" | "onVotes">): Promise<number> {
    return askAll(this.members, { name, kind: "renew", ms: this.#limit(lease), ...how,
      words: (prefix) => ["LOCK.RENEW", prefix + name, owner, "PX", lease, "TOKEN", token] });
  }

  /** What a minority may have still is not waited for by others. */
  #giveBack(holding: Holding): void {
    this.inBackground(this.#releaseOnAll(holding, now() + this.releaseLimit).catch(() => {}));
  }

  /** On all servers, also those that have not granted it: they may have since. */
  async #releaseOnAll(holding: Holding, until: number): Promise<void> {
    const { name, owner } = holding;
    this.#rests.get(holding)?.("release");
    await askAll(this.members, { name, kind: "release", ms: Math.min(this.#reply, Math.max(1, until - now())), until,
      onVotes: this.#onVotes.get(holding),
      words: (prefix) => ["LOCK.RELEASE", prefix + name, owner, "ALL"] });
  }
}
