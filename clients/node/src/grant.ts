/** What an acquire returns: one hold of a lock. */

import type { LockLost } from "./errors.ts";
import type { Holding } from "./holding.ts";
import { type Observer, guard, observed } from "./options.ts";
import { misuse } from "./state/claims.ts";
import { now } from "./time.ts";

/** What an owner holds: on one server, or on a majority of several. */
export type Held = Pick<Holding, "key" | "owner" | "token" | "remaining" | "loss" | "onLost" | "check" | "extend" | "detach"
  | "release">;

/**
 * A hold of a lock, until its release or the loss of the lock.
 *
 * No client can promise that it still has the lock when its write arrives. So the data store has to compare the `token`.
 *
 * @example
 * ```ts
 * await using grant = await locks.lock("lock:orders:42").acquire(); // released at the end of the block
 * grant.onLost((loss) => console.error("stop:", loss.reason));
 * await grant.check(); // before a critical step
 * await pay(grant.token, grant.signal);
 * ```
 */
export class Grant {
  /** The key of the lock, with the prefix. */
  readonly key: string;
  /** The holder, to the server. */
  readonly owner: string;
  /** The fencing token, to be sent with each write: later grants of the lock have higher ones. */
  readonly token: number;
  /** @internal Whether this hold was given back, or detached. */
  isReleased = false;
  readonly #held: Held;
  readonly #observer: Observer | undefined;
  readonly #taken: number;
  #abort: AbortController | undefined;
  /** What takes this hold's listeners away from a grant that the owner may hold for longer. */
  readonly #offs: (() => void)[] = [];

  /** @internal */
  constructor(held: Held, observer: Observer | undefined) {
    this.key = held.key;
    this.owner = held.owner;
    this.token = held.token;
    this.#held = held;
    this.#observer = observer;
    this.#taken = observer ? now() : 0;
  }

  /** Whether nobody else has the lock, by the clock alone, without a call. False also while the server is silent. */
  get held(): boolean {
    return this.remaining > 0;
  }

  /** For how many ms `held` stays true without another reply of the server; 0 if it is false. */
  get remaining(): number {
    return this.isReleased ? 0 : this.#held.remaining;
  }

  /** The loss of the lock, with its reason; undefined if it is not lost. */
  get lost(): LockLost | undefined {
    return this.#held.loss;
  }

  /** Is aborted when the lock is lost, with LockLost as the reason. Pass it on to what the work calls. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController();
      if (this.lost) this.abort(this.lost);
      else this.onLost((loss) => this.abort(loss));
    }
    return this.#abort.signal;
  }

  /** @internal Tells the work to end. */
  abort(reason: unknown): void {
    void this.signal;
    this.#abort?.abort(reason);
  }

  /**
   * Calls back when the lock is lost, not when it is released; soon if it is lost already. Returns a function that takes
   * the listener away.
   */
  onLost(listener: (loss: LockLost) => void): () => void {
    const { lost } = this;
    if (this.isReleased) return () => {};
    if (lost) {
      queueMicrotask(() => guard(() => listener(lost)));
      return () => {};
    }
    const off = this.#held.onLost(listener);
    this.#offs.push(off);
    return off;
  }

  /**
   * Asks the server whether the grant stands. Use it before a step that matters.
   *
   * @throws {@link LockLost} if it does not; {@link LockUnavailable} without an answer in two reply timeouts;
   * {@link LockMisuse} if it was released
   */
  async check(): Promise<void> {
    await this.#hold.check();
  }

  /**
   * Gives the grant another lease, from now on. The server goes on to renew it with that lease, unless it is fixed.
   *
   * @param lease - In ms: at least 1000, or at least 1 if it is fixed.
   * @throws {@link LockLost} if it was lost; {@link LockUnavailable} without an answer in two reply timeouts;
   * {@link LockMisuse} if it was released or the lease is too short
   */
  async extend(lease: number): Promise<void> {
    await this.#hold.extend(lease);
  }

  /**
   * Lets go of the lock without releasing it: nobody renews it, and it stays for this lease, for a caller of
   * {@link Locks.adopt} with its key, owner and token. An example is there.
   *
   * @param lease - In ms, at least 1.
   * @throws {@link LockLost} if it was lost; {@link LockUnavailable} without an answer in two reply timeouts;
   * {@link LockMisuse} if it was released, or its owner holds it more than once
   */
  async detach(lease: number): Promise<void> {
    await this.#hold.detach(lease);
    this.#end();
  }

  /**
   * Gives this hold back.
   *
   * @throws {@link LockLost} if the lock was lost before; {@link LockUnavailable} without an answer in two reply timeouts (then
   * the session repeats the release); {@link LockMisuse} the second time
   */
  release(): Promise<void> {
    if (this.isReleased) return Promise.reject(misuse(this.key, "it was released already"));
    const released = this.#held.release();
    this.#end();
    return observed("released", this.#observer, this.key, released, this.#taken);
  }

  /**
   * For `await using`: gives this hold back, unless that was done. It never rejects, because that would replace an error of
   * the work. End the block with `await grant.release()` where a loss is to be thrown.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.isReleased) await this.release().catch(() => {});
  }

  get #hold(): Held {
    if (this.isReleased) throw misuse(this.key, "it was released already");
    return this.#held;
  }

  /** From now on this hold hears of nothing. */
  #end(): void {
    this.isReleased = true;
    for (const off of this.#offs) off();
  }
}
