/** What waits and grants both need: claims, calls under way, reported losses, and releases that are not finished. */

import { LockLost, LockMisuse, LockUnavailable } from "../errors.ts";
import { type Claim, type SessionState, type TaskOwner, type Words, nameOf } from "./claim.ts";
import { Fault } from "./fault.ts";

/** A release that the loop repeats until it is answered. Without a token, it cancels a wait too. */
interface Unfinished {
  readonly server: SessionState;
  readonly owner: string;
  readonly token: number;
  readonly words: Words;
}

/** Names a grant, or with token 0 all that its owner has, a wait too. */
export const releaseOf = (name: string, token: number): string => `${token} ${name}`;

/** The error of a wrong call. */
export const misuse = (key: string, what: string): LockMisuse => new LockMisuse(`${key}: ${what}`, { key });

export class Ledger {
  /** The time of this call, in ms of a monotonic clock: the caller sets it, each time later. */
  at = 0;
  /** Releases that belong to another node of the cluster. */
  misplaced: Words[] = [];
  isClosed = false;
  readonly lease: number;
  readonly reply: number;
  readonly isCluster: boolean;
  /** Waits, and grants that are held, in the order of their asking. */
  protected readonly claims = new Map<string, Claim>();
  protected readonly unfinished = new Map<string, Unfinished>();
  protected readonly calls = new Map<number, Claim>();
  #lastCall = 0;
  /** By release: the reason, and the last call then under way. */
  readonly #losses = new Map<string, { readonly reason: string; readonly call: number }>();

  /** `lease` is that of the sessions, `reply` how long a reply may take. */
  constructor(lease: number, reply: number, isCluster: boolean) {
    this.lease = lease;
    this.reply = reply;
    this.isCluster = isCluster;
  }

  /** Registers a call before it is sent. An owner is not used again while a call in its name is unanswered. */
  beginCall(claim: Claim): number {
    this.#lastCall += 1;
    this.calls.set(this.#lastCall, claim);
    return this.#lastCall;
  }

  /** Follows the application of the reply. No later reply can name the losses before it. */
  endCall(call: number): void {
    this.calls.delete(call);
    if (this.#losses.size === 0) return;
    const [first = this.#lastCall + 1] = this.calls.keys();
    for (const [of, loss] of this.#losses) if (loss.call < first) this.#losses.delete(of);
  }

  protected isCalled(name: string): boolean {
    for (const claim of this.calls.values()) if (claim.name === name) return true;
    return false;
  }

  /** While calls are under way, a loss may be reported before the reply that names its grant. */
  protected recordLoss(release: string, reason: string): void {
    if (this.calls.size > 0) this.#losses.set(release, { reason, call: this.#lastCall });
  }

  protected lossOf(name: string, token: number): string | undefined {
    return this.#losses.size === 0 ? undefined : this.#losses.get(releaseOf(name, token))?.reason;
  }

  /** The owner that the task may use for another call; empty: it needs a fresh one. */
  usableOwner(task: TaskOwner): string {
    const isUsed = (it: { readonly owner: string }): boolean => it.owner === task.name;
    if (task.name && [...this.calls.values(), ...this.unfinished.values()].some(isUsed)) task.name = "";
    return task.name;
  }

  /** The loop repeats this release; by default of all holds, and without the session. */
  protected finishLater(server: SessionState, key: string, owner: string, token: number, words?: Words): void {
    const all: Words = ["LOCK.RELEASE", key, owner, "ALL", ...(token ? ["TOKEN", token] : [])];
    this.unfinished.set(releaseOf(nameOf(key, owner), token), { server, owner, token, words: words ?? all });
  }

  /** Applies the reply to the release of a claim that is unfinished; with token 0, to the cancel of a wait. */
  finished(claim: Claim, token: number, reply: unknown): void {
    this.endRelease(releaseOf(claim.name, token), reply);
  }

  protected endRelease(release: string, reply: unknown): void {
    const how = this.unfinished.get(release);
    if (!how || (reply instanceof Fault && reply.passing)) return;
    this.unfinished.delete(release);
    how.server.isLeaving ||= how.token > 0 && reply instanceof Fault && !reply.gone;
  }

  /** Throws if the grant has ended. */
  requireHeld({ key, phase, failure }: Claim): void {
    if (phase === "lost") throw failure;
    if (this.isClosed) throw misuse(key, "the locks are closed");
    if (phase !== "held") throw misuse(key, "it was released already");
  }

  protected unavailable({ key, server, cause }: Claim): LockUnavailable {
    const fault = cause ?? server.fault;
    return new LockUnavailable(`${key}: ${server.address}: ${fault?.text ?? "no answer in time"}`, { key, cause: fault?.cause });
  }

  /** The grant or wait does not count any more. */
  protected forget(claim: Claim): void {
    if (this.claims.get(claim.name) === claim) this.claims.delete(claim.name);
  }

  /** The grant ended otherwise than by its release. That is reported once. */
  protected lose(claim: Claim, reason: string): void {
    if (claim.phase === "lost") return;
    const { key } = claim;
    this.forget(claim);
    claim.phase = "lost";
    claim.failure = new LockLost(`${key}: the lock was lost: ${reason}. Stop the work under it`, { key, reason });
    claim.doubt = "";
    claim.renounceOwner();
    claim.changed();
  }
}
