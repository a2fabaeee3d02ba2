/** What an acquire returns: one hold of a lock. */

import type { LockLost } from "./errors.ts";
import { guard } from "./options.ts";
import { misuse } from "./state/ledger.ts";

/** What an owner holds: on one server, or on a majority of several. */
export interface Held {
  readonly key: string;
  readonly owner: string;
  readonly token: number;
  readonly remaining: number;
  readonly loss: LockLost | undefined;
  onLost(listener: (loss: LockLost) => void): () => void;
  check(): Promise<void>;
  extend(lease: number): Promise<void>;
  detach(lease: number): Promise<void>;
  release(): Promise<void>;
}

/** A hold of a lock, until its release or the loss of the lock. */
export class Grant {
  readonly #held: Held;
  #isReleased = false;
  #abort: AbortController | undefined;
  /** What takes this hold's listeners away from a grant that the owner may hold for longer. */
  #offs: (() => void)[] | undefined;

  /** @internal */
  constructor(held: Held) {
    this.#held = held;
  }

  /** The key of the lock, with the prefix. */
  get key(): string {
    return this.#held.key;
  }

  /** The holder, to the server. */
  get owner(): string {
    return this.#held.owner;
  }

  /** The fencing token, to be sent with each write: later grants of the lock have higher ones. */
  get token(): number {
    return this.#held.token;
  }

  /** Whether nobody else has the lock, by the clock alone. False also while the server is silent. */
  get held(): boolean {
    return this.remaining > 0;
  }

  /** @internal Whether this hold was given back, or detached. */
  get isReleased(): boolean {
    return this.#isReleased;
  }

  /** For how many ms `held` stays true without another reply of the server. */
  get remaining(): number {
    return this.#isReleased ? 0 : this.#held.remaining;
  }

  /** The loss of the lock, with its reason; undefined if it is not lost. */
  get lost(): LockLost | undefined {
    return this.#held.loss;
  }

  /** Is aborted when the lock is lost, with LockLost as the reason. Pass it on to what the work calls. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      const abort = (this.#abort = new AbortController());
      if (this.lost) abort.abort(this.lost);
      else this.onLost((loss) => abort.abort(loss));
    }
    return this.#abort.signal;
  }

  /**
   * Calls back when the lock is lost, not when it is released; soon if it is lost already. Returns a function that takes
   * the listener away.
   */
  onLost(listener: (loss: LockLost) => void): () => void {
    const { lost } = this;
    if (this.#isReleased) return () => {};
    if (lost) {
      queueMicrotask(() => guard(() => listener(lost)));
      return () => {};
    }
    const off = this.#held.onLost(listener);
    (this.#offs ??= []).push(off);
    return off;
  }

  /** Asks the server whether the grant stands. Use it before a step that matters. Rejects with LockLost if it does not. */
  async check(): Promise<void> {
    this.#requireHold();
    await this.#held.check();
  }

  /** Gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is fixed. */
  async extend(lease: number): Promise<void> {
    this.#requireHold();
    await this.#held.extend(lease);
  }

  /**
   * Lets go of the lock without releasing it: nobody renews it, and it stays for this lease, for a caller of
   * `Locks.adopt` with its key, owner and token.
   */
  async detach(lease: number): Promise<void> {
    this.#requireHold();
    await this.#held.detach(lease);
    this.#end();
  }

  /**
   * Gives this hold back. Rejects with LockLost if the lock was lost before, with LockUnavailable without an answer in two
   * reply timeouts (then the session repeats the release), and with LockMisuse the second time.
   */
  release(): Promise<void> {
    if (this.#isReleased) return Promise.reject(misuse(this.key, "it was released already"));
    this.#end();
    return this.#held.release();
  }

  /**
   * For `await using`: gives this hold back, unless that was done. It never rejects, because that would replace an error of
   * the work. End the block with `await grant.release()` where a loss is to be thrown.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isReleased) await this.release().catch(() => {});
  }

  /** From now on this hold hears of nothing. */
  #end(): void {
    this.#isReleased = true;
    for (const off of this.#offs ?? []) off();
    this.#offs = undefined;
  }

  #requireHold(): void {
    if (this.#isReleased) throw misuse(this.key, "it was released already");
  }
}
