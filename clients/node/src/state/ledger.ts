/** What waits and grants both need: claims, calls under way, reported losses, and releases that are not finished. */

import { type LockError, LockLost, LockMisuse, LockUnavailable } from "../errors.ts";
import { type Claim, type SessionState, type TaskOwner, type Words, nameOf } from "./claim.ts";
import { Fault } from "./fault.ts";

/** A release that the loop repeats until it is answered. Without a token, it cancels a wait too. */
interface Unfinished {
  readonly server: SessionState;
  readonly name: string;
  readonly owner: string;
  readonly token: number;
  readonly words: Words;
}

/** Names a grant, or with token 0 all that its owner has, a wait too. */
export const releaseOf = (name: string, token: number): string => `${token} ${name}`;

/** The token and the lease of a reply that is a grant. */
export function grantOf(reply: unknown): { readonly token: number; readonly lease: number } | undefined {
  return Array.isArray(reply) && reply.length > 3 ? { token: Number(reply[0]), lease: Number(reply[3]) } : undefined;
}

export class Ledger {
  /** The time of this call, in ms of a monotonic clock: the caller sets it, each time later. */
  at = 0;
  /** Claims whose callers have to look again. */
  changed: Claim[] = [];
  /** Grants that another node of the cluster may have. */
  elsewhere: Claim[] = [];
  /** Releases that belong to another node of the cluster. */
  misplaced: Words[] = [];
  isClosed = false;
  readonly lease: number;
  readonly reply: number;
  readonly isCluster: boolean;
  /** Waits, and grants that are held. */
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
    if (task.name && ([...this.calls.values()].some(isUsed) || [...this.unfinished.values()].some(isUsed))) task.name = "";
    return task.name;
  }

  /** The loop repeats this release; by default of all holds, and without the session. */
  protected finishLater(server: SessionState, key: string, owner: string, token: number, words?: Words): void {
    const name = nameOf(key, owner);
    const all: Words = ["LOCK.RELEASE", key, owner, "ALL", ...(token ? ["TOKEN", token] : [])];
    this.unfinished.set(releaseOf(name, token), { server, name, owner, token, words: words ?? all });
  }

  /** Applies the reply to an unfinished release. */
  protected finished(release: string, reply: unknown): void {
    const how = this.unfinished.get(release);
    if (!how || (reply instanceof Fault && reply.passing)) return;
    this.unfinished.delete(release);
    how.server.isLeaving ||= how.token > 0 && reply instanceof Fault && !reply.gone;
  }

  /** Until when nobody else has the lock. */
  sure(claim: Claim): number {
    const { session, sures } = claim.server;
    if (claim.session !== session || !session) return claim.ownSure;
    const sure = sures.find(({ sent }) => sent > claim.from); // the grant was known when that POLL was sent
    return sure ? Math.max(claim.ownSure, sure.till) : claim.ownSure;
  }

  /** For how long nobody else has the lock, by the clock alone. */
  remaining(claim: Claim): number {
    return claim.phase === "held" ? Math.max(0, this.sure(claim) - this.at) : 0;
  }

  /** Throws if the grant has ended. */
  requireHeld(claim: Claim): void {
    const { key, phase } = claim;
    if (phase === "lost") throw this.lost(claim);
    if (this.isClosed) throw new LockMisuse(`${key}: the locks are closed`, { key });
    if (phase !== "held") throw new LockMisuse(`${key}: it was released already`, { key });
  }

  /** One error for each loss. */
  lost(claim: Claim): LockError {
    const { key, reason } = claim;
    claim.failure ??= new LockLost(`${key}: the lock was lost: ${reason}. Stop the work under it`, { key, reason });
    return claim.failure;
  }

  unavailable({ key, server, cause }: Claim): LockUnavailable {
    const fault = cause ?? server.fault;
    return new LockUnavailable(`${key}: ${server.address}: ${fault?.text ?? "no answer in time"}`, { key, cause: fault?.cause });
  }

  /** The grant or wait does not count any more. */
  protected forget(claim: Claim): void {
    if (this.claims.get(claim.name) !== claim) return;
    this.claims.delete(claim.name);
    claim.server.grants.delete(claim);
  }

  /** The grant ended otherwise than by its release. That is reported once. */
  protected lose(claim: Claim, reason: string): void {
    if (claim.reason) return;
    this.forget(claim);
    claim.phase = "lost";
    claim.reason = reason;
    claim.doubt = "";
    claim.renounceOwner();
    this.changed.push(claim);
  }
}
