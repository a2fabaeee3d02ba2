/** What the client knows of one grant: an unbroken ownership of a lock by one owner. */

import { LockLost, type LockError } from "./errors.ts";
import type { Keeper } from "./keeper.ts";
import type { Wish } from "./options.ts";
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
  /** Whether nobody has used the owner before, so that all it has comes from this call. */
  readonly isFresh: boolean;
  readonly wish: Wish;
  readonly turn?: Turn;
}

export interface Terms {
  /** The key as the server knows it, and as the user does. */
  readonly key: string;
  readonly name: string;
  readonly owner: string;
  readonly token: number;
  readonly mode: Mode;
  readonly lease: number;
  /** How long the process may be silent; 0 for a lease that nobody renews. */
  readonly keep: number;
  /** How long a reply may take. */
  readonly reply: number;
}

/** Lets calls go one after the other. */
export class Turn {
  #last: Promise<unknown> = Promise.resolve();

  /** When all that have come before are done. */
  get free(): Promise<unknown> {
    return this.#last;
  }

  /** Does this when its turn has come. */
  take<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#last.then(change);
    this.#last = done.catch(() => {});
    return done;
  }
}

export class Holding {
  readonly key: string;
  readonly name: string;
  readonly owner: string;
  readonly token: number;
  mode: Mode;
  lease: number;
  keep: number;
  /** How many holds the owner has. */
  count = 1;
  /** How many of them are in use, or on their way. */
  #inUse = 1;
  /** Calls that change the count go out one after the other: each says what it is to be. */
  readonly turn: Turn;
  /** Called when a kept grant is told as lost though no server has said so: the server need not keep it any more. */
  onUnheard: (() => void) | undefined;
  /** The keeper of a kept grant. */
  keeper: Keeper | undefined;
  /** Whether the keeper's present connection keeps it, so that its PINGs tell of it. */
  isKept = false;
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

  constructor(terms: Terms, proof: number, turn = new Turn()) {
    this.key = terms.key;
    this.name = terms.name;
    this.owner = terms.owner;
    this.token = terms.token;
    this.mode = terms.mode;
    this.lease = terms.lease;
    this.keep = terms.keep;
    this.#reply = terms.reply;
    this.proof = proof;
    this.turn = turn;
  }

  get loss(): LockLost | undefined {
    return this.#loss;
  }

  get isLive(): boolean {
    return !this.#loss && !this.#isReleased;
  }

  /** Until when nobody else has the lock, as far as the client knows. */
  get knownUntil(): number {
    const keeper = this.isKept && this.keeper ? this.keeper.proven : -Infinity;
    return Math.min(this.#last, Math.max(this.proof, keeper) + this.lease);
  }

  /** A reply to a call for this grant, sent then, says that it stands. */
  proved(sent: number, lease: number): void {
    this.lease = lease;
    this.proof = Math.max(this.proof, sent);
    if (this.#timer) this.watch();
  }

  /** A renewal set the end of a lease that nobody renews: it may have become nearer. */
  setFixed(sent: number, lease: number): void {
    this.lease = lease;
    this.proof = sent;
    this.keep = 0;
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
      const isKept = this.keep > 0;
      this.lose(isKept ? "nothing was heard of it for a whole lease" : "the lease has ended");
      if (isKept) this.onUnheard?.();
    }, { patience: this.keep ? this.#reply : 0 });
  }

  /** The keeper tells of it again. */
  unwatch(): void {
    if (this.keep === 0 || this.#last < Infinity) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Ends at this time, whoever keeps it until then. */
  endAt(last: number): void {
    this.#last = last;
    this.watch();
  }

  lose(why: string, cause?: LockError | Error): void {
    if (!this.isLive) return;
    this.#loss = new LockLost(`${this.name}: ${why}`, { key: this.name, cause });
    this.#end();
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener(this.#loss);
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
    this.keeper?.leave(this);
    for (const end of this.#ends.splice(0)) end();
  }
}
