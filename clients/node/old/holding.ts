/** What the client knows of one grant: an unbroken ownership of a lock by one owner. */

import { type LockError, LockLost, LockMisuse } from "./errors.ts";
import type { Keeper } from "./keeper.ts";
import type { Line } from "./line.ts";
import type { Wish } from "./options.ts";
import { Stop, TimeUp } from "./stop.ts";
import { type Timer, later, now } from "./time.ts";

/** The modes of a lock: alone, with other readers, or with at most so many holders. */
export type Mode = "exclusive" | "shared" | { readonly limit: number };

/** How a command says it. */
export const modeWords = (mode: Mode): (string | number)[] =>
  mode === "exclusive" ? [] : mode === "shared" ? ["SHARED"] : ["LIMIT", mode.limit];

/** One acquire. */
export interface Request {
  readonly name: string;
  readonly mode: Mode;
  readonly owner: string;
  /** Whether the user gave the owner: it comes back, here or elsewhere. */
  readonly isNamed: boolean;
  readonly wish: Wish;
  /** Until when there has to be an answer. */
  readonly limit: number;
  readonly turn?: Turn;
  /** Called before the call ends where a release of what the owner has may come after that. */
  readonly onLate?: () => void;
}

export interface Terms {
  /** The key as the server knows it, and as the user does. */
  readonly key: string;
  readonly name: string;
  readonly owner: string;
  /** Whether others may use the owner, of which no connection tells. */
  readonly isNamed: boolean;
  readonly token: number;
  readonly lease: number;
  /** How long the process may be silent; 0 for a lease that nobody renews. */
  readonly keep: number;
  /** How long a reply may take. */
  readonly reply: number;
}

/** What an owner has that others use, too: one of them may keep it by now. */
export interface Common {
  readonly key: string;
  readonly owner: string;
  /** None: whatever it has. */
  readonly token: number | undefined;
  /** The connection that kept it last. */
  readonly keptOn: Line | undefined;
}

/** Lets calls go one after the other. */
export class Turn {
  #last: Promise<unknown> = Promise.resolve();
  /** How many are not done. */
  #pending = 0;
  /** What is given back before the next call. */
  #clearing: Promise<unknown> | undefined;

  /** When all that have come before are done. */
  get free(): Promise<unknown> {
    return this.#last.then(() => this.#clearing);
  }

  /** Whether anything is under way. */
  get isBusy(): boolean {
    return this.#pending > 0 || this.#clearing !== undefined;
  }

  /** Whether what was left is being given back. */
  get isClearing(): boolean {
    return this.#clearing !== undefined;
  }

  /** Does this when its turn has come. */
  take<T>(change: () => Promise<T>): Promise<T> {
    this.#pending += 1;
    const start = (): Promise<T> => (this.#clearing ? this.#clearing.then(start) : change());
    const done = this.#last.then(start);
    const end = (): void => { this.#pending -= 1; };
    this.#last = done.then(end, end);
    return done;
  }

  /** The same, unless that is after `until`, for which `late` gives the error, or the call is stopped before. */
  async takeBy<T>(until: number, change: () => Promise<T>, late: (cause: TimeUp) => Error, stop = new Stop()): Promise<T> {
    let hasCome = false;
    let isLate = false;
    let tell = (): void => {};
    const come = new Promise<void>((resolve) => { tell = resolve; });
    const done = this.take(async () => {
      if (isLate) return undefined as T; // nobody hears of it
      hasCome = true;
      tell();
      return change();
    });
    done.catch(() => {});
    try {
      await stop.race(come, until);
    } catch (error) {
      isLate = true;
      if (!hasCome) throw error instanceof TimeUp ? late(error) : error;
    }
    return done;
  }

  /** The next turn comes when this is done, too: what gives back what was left. */
  clear<T>(task: Promise<T>): Promise<T> {
    const clearing = (this.#clearing = Promise.allSettled([this.#clearing, task]).then(() => {
      if (this.#clearing === clearing) this.#clearing = undefined;
    }));
    return task;
  }
}

export class Holding {
  readonly key: string;
  readonly name: string;
  readonly owner: string;
  readonly isNamed: boolean;
  readonly token: number;
  lease: number;
  keep: number;
  /** How many holds the owner has. */
  count = 1;
  /** How many of them are in use, or on their way. */
  #inUse = 1;
  /** Calls that change the count go out one after the other: each says what it is to be. */
  readonly turn: Turn;
  /** Called when a grant is told as lost though no server has said so, with what kept it: that need not keep it any more. */
  onUnheard: ((keeper: Keeper | undefined) => void) | undefined;
  /** Called when a release may come after the next call of the owner. */
  onLate: (() => void) | undefined;
  /** The keeper of a kept grant. */
  keeper: Keeper | undefined;
  /** Whether the keeper's present connection keeps it, so that its PINGs tell of it. */
  isKept = false;
  /** Whether it is this process's to keep: another connection that keeps it by now was asked later. */
  wasKept = false;
  /** The connection that kept it last: the server closes that when another one is to keep it. */
  keptOn: Line | undefined;
  /** A call is on its way that ends the keeping: nothing asks for it again behind that. */
  isEnding = false;
  /** The sending of the last call by which the grant itself was known to stand. */
  proof: number;
  /** When the client learned of the grant. */
  readonly since = now();
  readonly #reply: number;
  #loss: LockLost | undefined;
  #isReleased = false;
  #listeners = new Set<(loss: LockLost) => void>();
  #ends: (() => void)[] = [];
  #timer: Timer | undefined;
  /** When a grant that is held at most so long ends. */
  #last = Infinity;
  /** When it ends if a call was carried out whose answer has not come. */
  #mayEnd = Infinity;
  /** What gives it its end at the server. */
  #tail: Timer | undefined;

  constructor(terms: Terms, proof: number, turn = new Turn()) {
    this.key = terms.key;
    this.name = terms.name;
    this.owner = terms.owner;
    this.isNamed = terms.isNamed;
    this.token = terms.token;
    this.lease = terms.lease;
    this.keep = terms.keep;
    this.#reply = terms.reply;
    this.proof = proof;
    this.turn = turn;
  }

  get loss(): LockLost | undefined {
    return this.#loss;
  }

  /** What its calls look after where somebody else may keep it by now, in the name of the same owner. */
  get common(): Common | undefined {
    return this.isNamed && this.wasKept ? this : undefined;
  }

  get isLive(): boolean {
    return !this.#loss && !this.#isReleased;
  }

  /** Until when nobody else has the lock, as far as the client knows. */
  get knownUntil(): number {
    const keeper = this.isKept && this.keeper ? this.keeper.proven : -Infinity;
    return Math.min(this.#last, this.#mayEnd, Math.max(this.proof, keeper) + this.lease);
  }

  /** A reply to a call for this grant, sent then, says that it stands. */
  proved(sent: number, lease: number): void {
    this.lease = lease;
    this.proof = Math.max(this.proof, sent);
    this.goesOn();
  }

  /** A call that sets this lease is on its way. */
  mayEndIn(lease: number): void {
    this.#mayEnd = Math.min(this.#mayEnd, now() + lease);
    this.watch();
  }

  /** No call that has set another lease is without its answer. */
  goesOn(): void {
    this.#mayEnd = Infinity;
    if (this.#timer) this.watch();
    if (this.isKept) this.unwatch();
  }

  /** A renewal set the end of a lease that nobody renews: it may have become nearer. */
  setFixed(sent: number, lease: number): void {
    this.lease = lease;
    this.proof = sent;
    this.#mayEnd = Infinity;
    this.keep = 0;
    this.keptOn = undefined;
    this.watch();
  }

  /** From now on the grant is lost at the end of what is known, but not before `least` ms, unless more becomes known. */
  watch(least = 0): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (!this.isLive) return;
    this.#timer = later(Math.max(least, this.knownUntil - now()), () => {
      this.#timer = undefined;
      if (now() < this.knownUntil) return this.watch();
      const isUnheard = this.keep > 0 || now() >= this.#mayEnd;
      if (isUnheard) this.loseUnheard("nothing was heard of it for a whole lease");
      else this.lose("the lease has ended");
    }, { patience: this.keep ? this.#reply : 0 });
  }

  /** The keeper tells of it again. */
  unwatch(): void {
    if (this.keep === 0 || this.#last < Infinity || this.#mayEnd < Infinity) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Ends at this time, whoever keeps it until then. */
  endAt(last: number): void {
    this.#last = last;
    this.watch();
  }

  /** When it ends, whoever keeps it until then; Infinity: there is no such end. */
  get last(): number {
    return this.#last;
  }

  /** Has this done when no more than a lease is left until the end, where it has one. */
  atLastLease(end: () => void): void {
    this.#tail?.cancel();
    if (this.#last === Infinity || !this.isLive) return;
    this.#tail = later(this.#last - this.lease - now(), () => {
      if (this.isLive) end();
    });
  }

  lose(why: string, cause?: LockError | Error): void {
    if (!this.isLive) return;
    this.#loss = new LockLost(`${this.name}: ${why}`, { key: this.name, cause });
    this.#end();
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener(this.#loss);
  }

  /** The same where no server has said so. */
  loseUnheard(why: string): void {
    if (!this.isLive) return;
    const { keeper } = this;
    this.lose(why);
    this.onUnheard?.(keeper);
  }

  mustBeLive(): void {
    if (!this.isLive) throw this.#loss ?? new LockMisuse(`${this.name}: released already`, { key: this.name });
  }

  /** No other hold is in use, or on its way. */
  mustBeTheLast(): void {
    if (this.#inUse > 1) throw new LockMisuse(`${this.name}: taken more than once: only the last hold is let go of`, { key: this.name });
  }

  /** A hold is wanted: the grant must not end before that is decided. */
  claim(): void {
    this.#inUse += 1;
  }

  /** A hold is not wanted any more. Without any the grant is not held, whatever the server knows. */
  unclaim(): void {
    this.#inUse -= 1;
    if (this.#inUse === 0) this.released();
  }

  /** Nothing is kept or told any more. */
  released(): void {
    if (!this.isLive) return;
    this.#isReleased = true;
    this.#end();
    this.#listeners.clear();
  }

  onLost(listener: (loss: LockLost) => void): () => void {
    if (this.isLive) this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls back once, when the grant is neither held nor watched any more. */
  whenEnded(end: () => void): void {
    if (this.isLive) this.#ends.push(end);
    else end();
  }

  #end(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#tail?.cancel();
    this.keeper?.leave(this);
    for (const end of this.#ends.splice(0)) end();
  }
}
