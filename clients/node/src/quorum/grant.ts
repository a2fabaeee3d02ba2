/** A lock that a majority of servers has granted. */

import { type LockError, LockLost, LockUnavailable } from "../errors.ts";
import type { Held } from "../grant.ts";
import type { Holding } from "../holding.ts";
import { type Observer, guard } from "../options.ts";
import { misuse } from "../state/claims.ts";
import type { Vote } from "./ballot.ts";

/** The parts of a lock that are not lost. It is held while they are a majority. */
export class QuorumHolding implements Held {
  readonly key: string;
  readonly owner: string;
  readonly token: number;
  loss: LockLost | undefined;
  readonly #majority: number;
  readonly #observer: Observer | undefined;
  readonly #parts = new Map<Holding, string>();
  readonly #losses: LockLost[] = [];
  readonly #listeners = new Set<(loss: LockLost) => void>();
  #isReleased = false;

  constructor(key: string, owner: string, token: number, majority: number, observer: Observer | undefined) {
    this.key = key;
    this.owner = owner;
    this.token = token;
    this.#majority = majority;
    this.#observer = observer;
  }

  /** Takes what a server has granted and raised to the token. */
  join(vote: Vote): void {
    const { holding, member } = vote;
    if (!holding || !vote.isRaised || vote.token !== this.token || vote.isOpen || this.#isReleased || this.loss) return;
    vote.holding = undefined;
    this.#parts.set(holding, member.name);
    if (holding.loss) this.#partLost(holding, holding.loss);
    else holding.onLost((loss) => this.#partLost(holding, loss));
  }

  /** Goes on without a part, as long as a majority is left. */
  #partLost(part: Holding, loss: LockLost): void {
    this.#losses.push(loss);
    const name = this.#parts.get(part);
    this.#parts.delete(part);
    if (this.#isReleased || this.loss || this.#parts.size >= this.#majority) return;
    const reason = `${name ?? "a server"}: ${loss.reason}`;
    const all = (this.loss = new LockLost(`${this.key}: the lock was lost: ${reason}. Stop the work under it`,
      { key: this.key, reason, cause: new AggregateError(this.#losses) }));
    for (const listener of this.#listeners) guard(() => listener(all));
    if (this.#observer?.lost) guard(() => this.#observer?.lost?.(this.key, all));
    for (const rest of this.#parts.keys()) void rest.giveUp();
  }

  onLost(listener: (loss: LockLost) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get remaining(): number {
    if (this.loss || this.#isReleased) return 0;
    const left = [...this.#parts.keys()].map((part) => part.remaining).sort((one, other) => other - one);
    return left[this.#majority - 1] ?? 0;
  }

  check(): Promise<void> {
    return this.#ask((part) => part.check());
  }

  extend(lease: number): Promise<void> {
    return this.#ask((part) => part.extend(lease));
  }

  detach(): Promise<void> {
    return Promise.reject(misuse(this.key, "the lock of a quorum cannot be detached"));
  }

  /** Resolves when a majority has answered; the sessions repeat what the others have not. */
  release(): Promise<void> {
    const released = this.#ask((part) => part.release());
    this.#isReleased = true;
    return released;
  }

  /** Makes a call about each part at once, until a majority has agreed, or all have answered. */
  async #ask(call: (part: Holding) => Promise<void>): Promise<void> {
    if (this.loss) throw this.loss;
    if (this.#isReleased) throw misuse(this.key, "it was released already");
    const parts = [...this.#parts.keys()];
    let agreed = 0;
    const errors: unknown[] = [];
    await new Promise<void>((resolve) => {
      for (const part of parts) {
        call(part).then(() => { agreed += 1; }, (error: unknown) => { errors.push(error); }).then(() => {
          if (agreed >= this.#majority || agreed + errors.length === parts.length) resolve();
        }, resolve);
      }
    });
    if (agreed >= this.#majority) return;
    const lost = errors.filter((error) => error instanceof LockLost).length;
    const Kind: typeof LockError = parts.length - lost < this.#majority ? LockLost as typeof LockError : LockUnavailable;
    const cause = new AggregateError(errors);
    throw new Kind(`${this.key}: no majority of the servers: ${errors.join("; ")}`, { key: this.key, cause });
  }
}
