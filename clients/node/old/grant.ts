/** What an acquire returns: one hold of a lock. */

import { LockLost, LockMisuse } from "./errors.ts";
import type { Holding, Mode } from "./holding.ts";
import { now } from "./time.ts";

/** What changes of a grant. */
export interface Change {
  readonly lease?: number | undefined;
  readonly mode?: Mode;
  /** 0: nobody renews it any more. */
  readonly keep?: number;
}

/** Who carries out what is asked of a grant: for one server, or for a quorum. */
export interface GrantCalls {
  check(holding: Holding): Promise<void>;
  renew(holding: Holding, change: Change): Promise<void>;
  detach(holding: Holding): Promise<void>;
  release(holding: Holding, signal?: AbortSignal): Promise<void>;
  guard(listener: () => void): void;
  unheard(holding: Holding, error: unknown): void;
}

/** One hold of a lock. It is held until it is released, or lost. */
export class Grant {
  readonly #calls: GrantCalls;
  readonly #holding: Holding;
  #isReleased = false;
  #abort: AbortController | undefined;
  /** What takes this hold's listeners away from a grant that others may hold for longer. */
  #offs: Set<() => void> | undefined;

  /** @internal */
  constructor(calls: GrantCalls, holding: Holding) {
    this.#calls = calls;
    this.#holding = holding;
  }

  /** The key of the lock. */
  get key(): string {
    return this.#holding.name;
  }

  /** The owner, as LOCK.INFO tells it. */
  get owner(): string {
    return this.#holding.owner;
  }

  /** The fencing token, to be sent with each write: it rises from grant to grant. */
  get token(): number {
    return this.#holding.token;
  }

  /** Whether this hold is neither released nor told as lost. Asks nobody. */
  get held(): boolean {
    return !this.#isReleased && this.#holding.isLive;
  }

  /** For how many ms nobody else gets the lock, as far as is known without asking. */
  get remaining(): number {
    return this.held ? Math.max(0, this.#holding.knownUntil - now()) : 0;
  }

  /** How many holds the owner has in this grant; more than 1 in a task that took the lock again. */
  get holds(): number {
    return this.#holding.isLive ? this.#holding.count : 0;
  }

  /** Aborted as soon as the grant is lost, with LockLost as the reason. Pass it on to what the work calls. */
  get signal(): AbortSignal {
    if (!this.#abort) {
      const abort = (this.#abort = new AbortController());
      if (this.#holding.loss) abort.abort(this.#holding.loss);
      else if (!this.#isReleased) this.#listen((loss) => abort.abort(loss));
    }
    return this.#abort.signal;
  }

  /**
   * Calls back once, when the grant is lost; at once where it is already. Returns a function that takes the
   * listener away.
   */
  onLost(listener: (loss: LockLost) => void): () => void {
    const loss = this.#holding.loss;
    if (this.#isReleased) return () => {};
    if (!loss) return this.#listen((it) => this.#calls.guard(() => listener(it)));
    this.#calls.guard(() => listener(loss));
    return () => {};
  }

  /**
   * Asks the server whether the grant stands. Rejects with LockLost when it does not, and with LockUnavailable
   * when there is no answer.
   */
  async check(): Promise<void> {
    this.#mustBeHeld();
    await this.#calls.check(this.#holding);
    this.#mustBeHeld();
  }

  /**
   * Sets the lease, and has it begin anew. Without an argument its present length. With `fixed` it is not renewed
   * from then on: the lock is held for so long, and no longer.
   */
  async extend(lease?: number, { fixed = false }: { readonly fixed?: boolean } = {}): Promise<void> {
    this.#mustBeHeld();
    await this.#calls.renew(this.#holding, { lease, ...(fixed && { keep: 0 }) });
  }

  /** Goes on as a reader: those who wait for the lock as readers get in. For a lock that was taken once. */
  async downgrade(): Promise<void> {
    this.#mustBeHeld();
    await this.#calls.renew(this.#holding, { mode: "shared" });
  }

  /**
   * Lets go of the grant without giving the lock back: it stays for a lease, for whoever calls `locks.adopt` with
   * its key, owner and token.
   */
  async detach(): Promise<void> {
    this.#mustBeHeld();
    await this.#calls.detach(this.#holding);
    this.#end();
  }

  /**
   * Gives this hold back. Rejects with LockLost when the grant had been lost, with LockUnavailable when there
   * was no answer (then the lock comes free within a lease), and with LockMisuse the second time.
   */
  async release(options: { signal?: AbortSignal } = {}): Promise<void> {
    if (this.#isReleased) throw new LockMisuse(`${this.key}: released already`, { key: this.key });
    this.#end();
    await this.#calls.release(this.#holding, options.signal);
  }

  /**
   * For `await using`: gives this hold back, unless that was done. Never rejects, for that would replace an
   * error of the work; where the work should hear of a loss at its end, let it end with `await grant.release()`.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isReleased) return;
    await this.release().catch((error: unknown) => this.#calls.unheard(this.#holding, error));
  }

  #listen(listener: (loss: LockLost) => void): () => void {
    const offs = (this.#offs ??= new Set());
    const off = this.#holding.onLost(listener);
    offs.add(off);
    return () => {
      off();
      offs.delete(off);
    };
  }

  /** From now on this is not held, and hears of nothing. */
  #end(): void {
    this.#isReleased = true;
    for (const off of this.#offs ?? []) off();
    this.#offs = undefined;
  }

  #mustBeHeld(): void {
    if (this.#isReleased) throw new LockMisuse(`${this.key}: released already`, { key: this.key });
    if (this.#holding.loss) throw this.#holding.loss;
  }
}
