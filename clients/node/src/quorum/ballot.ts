/** What an acquire has got of each server of a quorum. */

import type { Core } from "../core.ts";
import { LockBusy, LockError, LockLost, LockRefused, LockUnavailable } from "../errors.ts";
import { type Holding, hold } from "../holding.ts";
import type { Terms } from "../state/claim.ts";
import { Sleeper, now } from "../time.ts";

/** How long replies are waited for at least when a majority has answered. */
export const PATIENCE = 50;

/** One of the servers. */
export interface Member {
  readonly name: string;
  readonly core: Core;
}

/** What the acquire has got of one server. */
export class Vote {
  readonly member: Member;
  holding: Holding | undefined;
  /** Of the grant. */
  token = 0;
  /** The server has acknowledged the token. */
  isRaised = false;
  /** The token that is too far ahead of its clock; 0: none was. */
  refused = 0;
  /** Why there is no grant, or no token. */
  error: unknown;
  /** An acquire or a raise is under way. */
  isOpen = false;
  /** An acquire waits in line for its turn. */
  isInLine = false;
  /** Ends the acquire that is under way: only the last one counts. */
  leave = new AbortController();

  constructor(member: Member) {
    this.member = member;
  }

  /** Whether the connection of a session there has broken. */
  get isDown(): boolean {
    return this.member.core.servers.some((server) => server.isDown);
  }

  /** By its last answer. */
  get isBusy(): boolean {
    return this.error instanceof LockBusy;
  }

  /** Whether it has answered what the lock is to others. */
  get isAnswer(): boolean {
    return this.isInLine || this.isBusy || (this.error === undefined && !this.isOpen);
  }

  /** Whether it would refuse again. */
  get isRefusal(): boolean {
    const passes = this.error instanceof LockUnavailable || this.error instanceof LockLost || this.refused > 0;
    return !this.isAnswer && this.error instanceof LockError && !passes;
  }

  /** Whether the grant stands, and the server has acknowledged this token. */
  has(token: number): boolean {
    return this.holding !== undefined && this.isRaised && this.token === token && this.holding.remaining > 0;
  }

  /** Whether the server can be raised to a token, as far as is known. */
  canHave(token: number): boolean {
    return this.holding !== undefined && this.token <= token && (this.refused === 0 || token < this.refused);
  }
}

/** Each of its calls has an owner of its own, so that a late one never counts for another. */
export class Ballot {
  readonly votes: readonly Vote[];
  readonly majority: number;
  readonly #key: string;
  readonly #terms: Terms;
  readonly #sleeper = new Sleeper();
  /** What follows each reply when the acquire has ended. */
  #after: (() => void) | undefined;

  constructor(members: readonly Member[], key: string, terms: Terms) {
    this.votes = members.map((member) => new Vote(member));
    this.majority = Math.floor(members.length / 2) + 1;
    this.#key = key;
    this.#terms = terms;
  }

  count(is: (vote: Vote) => boolean): number {
    return this.votes.filter(is).length;
  }

  get granted(): number {
    return this.count((vote) => vote.holding !== undefined);
  }

  /** The first server that has answered. */
  get first(): Vote | undefined {
    return this.votes.find((it) => it.holding || (it.isBusy && !it.isOpen && !it.isInLine) || (it.isInLine && !it.isDown));
  }

  /** Waits for a reply. False: none came until then, or the acquire was called off. */
  async next(over: number): Promise<boolean> {
    const rest = over - now();
    if (rest <= 0 || this.#terms.signal?.aborted) return false;
    await this.#sleeper.sleep(rest, this.#terms.signal);
    return now() < over && !this.#terms.signal?.aborted;
  }

  /** Acquires the lock of all servers that have neither granted it nor are being asked. */
  async askRest(wait: number): Promise<void> {
    const most = this.#terms.isFixed ? Math.min(wait, this.#terms.lease / 2) : wait; // nobody renews what it has
    for (const vote of this.votes) if (!vote.holding && !vote.isOpen && !vote.isInLine) this.ask(vote, most, false);
    await this.#collect((vote) => vote.holding !== undefined, PATIENCE);
  }

  /** Acquires the lock of one server. */
  ask(vote: Vote, wait: number, isInLine: boolean): void {
    const leave = (vote.leave = new AbortController());
    const { maxHold } = this.#terms;
    vote.isOpen = !isInLine;
    vote.isInLine = isInLine;
    const terms: Terms = { ...this.#terms, wait, signal: leave.signal, maxHold: isInLine ? Infinity : maxHold };
    const answered = (holding: Holding | undefined, error: unknown): void => {
      if (vote.leave !== leave || leave.signal.aborted) {
        void holding?.giveUp();
        return;
      }
      vote.holding = holding;
      vote.error = error;
      vote.isOpen = false;
      vote.isInLine = false;
      if (!holding) return;
      vote.token = holding.token;
      vote.isRaised = false;
      vote.refused = 0;
    };
    this.#call(hold(vote.member.core, this.#key, terms).then(
      (holding) => answered(holding, undefined),
      (error: unknown) => answered(undefined, error),
    ));
  }

  /** Whoever waits looks again when the reply has been applied. */
  #call(applied: Promise<void>): void {
    void applied.then(() => {
      this.#after?.();
      this.#sleeper.wake();
    });
  }

  /** Gives up the places in line. */
  leaveLines(): void {
    for (const vote of this.votes) {
      if (!vote.isInLine) continue;
      vote.isInLine = false;
      vote.leave.abort();
    }
  }

  /**
   * Waits until a majority is as it should be, or cannot be any more; with patience then for the others as long again, but
   * not for servers that are down.
   */
  async #collect(is: (vote: Vote) => boolean, patience: number): Promise<void> {
    const begun = now();
    for (let over = Infinity; ;) {
      const done = this.count(is);
      const open = this.count((vote) => vote.isOpen);
      const awaited = this.count((vote) => vote.isOpen && !vote.isDown);
      if (open === 0) return;
      if (done >= this.majority || done + (this.#terms.wait > 0 ? awaited : open) < this.majority) {
        if (patience === 0 || awaited === 0) return;
        if (over === Infinity) over = now() + Math.min(Math.max(now() - begun, patience), 5 * patience);
      }
      if (!(await this.next(over))) return;
    }
  }

  /** The highest token that a majority can have, as far as is known; 0: there is none. */
  #common(): number {
    const tokens = this.votes.filter((vote) => vote.holding).map((vote) => vote.token);
    return Math.max(0, ...tokens.filter((token) => this.count((vote) => vote.canHave(token)) >= this.majority));
  }

  /**
   * Gives a majority one token, with which it resolves; 0: there is none. Servers whose clocks differ are left out, as far
   * as a majority remains.
   */
  async raise(): Promise<number> {
    for (;;) {
      const token = this.#common();
      const able = this.votes.filter((vote) => vote.canHave(token) && !vote.isOpen && !vote.has(token));
      for (const vote of able) this.#raiseTo(vote, token);
      await this.#collect((vote) => vote.has(token), 0);
      if (this.count((vote) => vote.has(token)) >= this.majority) return token;
      if (able.length > 0) continue; // now more is known of what they can have
      // A server that has not answered yet may make a majority.
      if (this.count((vote) => vote.isOpen) === 0 || !(await this.next(Infinity))) return 0;
    }
  }

  #raiseTo(vote: Vote, token: number): void {
    const { holding } = vote;
    if (!holding) return;
    vote.isOpen = true;
    const raised = (): void => {
      vote.error = undefined;
      [vote.token, vote.isRaised] = [token, true];
    };
    const failed = (error: unknown): void => {
      vote.error = error;
      const cause = error instanceof LockRefused ? error.cause : undefined; // the reply
      if (cause instanceof Error && cause.message.startsWith("AHEAD ")) { // its clock is behind
        vote.refused = token;
      } else { // which token it has is not known
        vote.holding = undefined;
        void holding.giveUp();
      }
    };
    this.#call(holding.raise(token).then(raised, failed).then(() => { vote.isOpen = false; }));
  }

  /** Gives up what has been granted. The next round does not meet it. */
  async giveBack(): Promise<void> {
    await Promise.all(this.votes.map((vote) => {
      if (vote.isOpen || !vote.holding) return undefined;
      const { holding } = vote;
      vote.holding = undefined;
      return holding.giveUp();
    }));
  }

  /**
   * Gives back the rest, in the background. `hand` takes what the lock can use; raises that are answered late still join it.
   */
  finish(hand: ((vote: Vote) => void) | undefined): void {
    this.leaveLines();
    if (!hand) for (const vote of this.votes) vote.leave.abort();
    this.#after = () => {
      for (const vote of this.votes) hand?.(vote);
      void this.giveBack();
    };
    this.#after();
  }
}
