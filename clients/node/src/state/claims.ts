/** The rules of a claim: of a wait until it is granted, and of the grant that the user has. */

import { type LockError, LockLost, LockMisuse } from "../errors.ts";
import { type Call, type Claim, type Phase, type SessionState, type TaskOwner, type Words, nameOf } from "./claim.ts";
import { Fault } from "./fault.ts";

/** A release that the loop repeats until it is answered. Without a token, it cancels a wait too. */
export interface Release {
  readonly id: string;
  readonly server: SessionState;
  readonly owner: string;
  readonly token: number;
  readonly words: Words;
}

/** Names a grant, or with token 0 all that its owner has, a wait too. */
export const idOf = (name: string, token: number): string => `${token} ${name}`;

/** The error of a wrong call. */
export const misuse = (key: string, what: string): LockMisuse => new LockMisuse(`${key}: ${what}`, { key });

/** A reply that has been read: it is a fault, a grant, or neither. */
interface Outcome {
  readonly fault: Fault | undefined;
  /** The token and the lease of a reply that is a grant. */
  readonly grant: { readonly token: number; readonly lease: number } | undefined;
  /** Why the grant is lost: the server has reported it meanwhile, or does so now. */
  readonly loss: string | undefined;
}

export class Claims {
  /** The time of this call, in ms of a monotonic clock: the caller sets it, each time later. */
  at = 0;
  isClosed = false;
  /** Waits, grants that are held, and claims with calls under way, in the order of their asking. */
  protected readonly claims = new Map<string, Claim>();
  protected readonly unfinished = new Map<string, Release>();

  /** `lease` is that of the sessions, `reply` how long a reply may take. */
  constructor(readonly lease: number, readonly reply: number, readonly isCluster: boolean) {}

  /** Registers a call before it is sent. An owner is not used again while a call in its name is unanswered. */
  beginCall(claim: Claim): Call {
    const { server, terms: { task } } = claim;
    claim.calls += 1;
    if (task) task.calls += 1;
    return { claim, server, session: server.session, sent: this.at, reply: undefined, wasOpen: false };
  }

  /** The call is not under way any more. */
  #endCall(call: Call): Outcome {
    const { claim, reply, wasOpen } = call;
    const { losses, terms: { task } } = claim;
    const fault = reply instanceof Fault ? reply : undefined;
    const grant = Array.isArray(reply) && reply.length > 3 ? { token: Number(reply[0]), lease: Number(reply[3]) } : undefined;
    const reported = losses?.get(grant?.token ?? claim.token);
    claim.calls -= 1;
    if (task) task.calls -= 1;
    if (claim.calls === 0) claim.losses = undefined;
    this.#forgetIfOver(claim);
    if (wasOpen || fault?.noReply) claim.renounceOwner();
    if (fault) return { fault, grant, loss: fault.gone ? (reported ?? `gone (${fault.word})`) : undefined };
    return { fault, grant, loss: grant && reported };
  }

  #forgetIfOver(claim: Claim): void {
    if (claim.isOver && claim.calls === 0 && this.claims.get(claim.name) === claim) this.claims.delete(claim.name);
  }

  /** The owner that the task may use for another call; empty: it needs a fresh one. */
  usableOwner(task: TaskOwner): string {
    const isUnfinished = [...this.unfinished.values()].some(({ owner }) => owner === task.name);
    if (task.calls > 0 || isUnfinished) task.name = "";
    return task.name;
  }

  /** The loop repeats this release; by default of all holds, and without the session. */
  protected finishLater(server: SessionState, key: string, owner: string, token: number,
    words: Words = ["LOCK.RELEASE", key, owner, "ALL", ...(token ? ["TOKEN", token] : [])]): Release {
    const release = { id: idOf(nameOf(key, owner), token), server, owner, token, words };
    this.unfinished.set(release.id, release);
    return release;
  }

  /** Applies the reply to a release that is unfinished. */
  finished({ id, server, token }: Release, reply: unknown): void {
    const fault = reply instanceof Fault ? reply : undefined;
    if (fault?.passing || !this.unfinished.delete(id)) return;
    server.isLeaving ||= token > 0 && fault !== undefined && !fault.gone;
  }

  /** Registers a wait before its call is sent: its event may arrive before its reply. */
  ask(wait: Claim): void {
    if (this.isClosed) throw misuse(wait.key, "the locks are closed");
    if (this.claims.has(wait.name)) throw misuse(wait.key, "this owner already waits for the lock or holds it");
    this.claims.set(wait.name, wait);
    if (wait.terms.task) wait.terms.task.name = wait.owner;
  }

  /**
   * What the caller of an acquire does next: it has the grant, sends the ACQUIRE of this call, or waits for so long or until
   * the claim has changed. Throws if the acquire has failed.
   */
  step(wait: Claim): "done" | Call | number {
    const { phase, server } = wait;
    if (phase === "over") throw wait.failure ?? misuse(wait.key, "its caller has stopped waiting for the lock");
    if (!wait.isWaiting) {
      this.requireHeld(wait);
      if (wait.sure <= this.at) return Infinity; // the next POLL makes it sure, or it is lost
      wait.isHandedOver = !wait.terms.isFixed; // else when it has left the session
      wait.terms.task?.held.set(wait.key, wait);
      return "done";
    }
    if (!server.session && server.fault && !server.fault.passing) throw server.fault.error(wait.key, server.address);
    const end = phase === "asked" ? wait.askedEnd : wait.last;
    if (this.at >= end) {
      if (phase === "in line" && wait.session === server.session) throw Fault.reply("timeout").error(wait.key, server.address);
      throw (wait.cause ?? server.fault ?? Fault.none("no answer in time", false)).error(wait.key, server.address);
    }
    if (phase === "in line" || !server.session) return end - this.at;
    wait.open += 1;
    return this.beginCall(wait);
  }

  /** Applies the reply to an ACQUIRE. */
  answered(call: Call): void {
    const { claim: wait, server, session, sent, reply } = call;
    const { fault, grant, loss } = this.#endCall(call);
    if (!fault?.noReply) wait.open -= 1;
    if (fault && !fault.passing) {
      this.endWait(wait, fault.error(wait.key, server.address));
    } else if (fault) {
      wait.cause = fault;
      if (fault.word === "NOSESSION" && session === server.session) server.session = 0;
      if (fault.redirects && wait.phase === "in line" && wait.session !== server.session) this.askAgain(wait);
    } else if (grant) {
      if (loss !== undefined) { // reported before: it is no grant
        if (wait.isWaiting) this.askAgain(wait);
      } else if (!this.granted(server, wait.name, grant.token, session, sent + grant.lease)) {
        this.finishLater(server, wait.key, wait.owner, grant.token);
      }
    } else if (reply === null) {
      this.endWait(wait, Fault.reply("not free").error(wait.key, server.address));
    } else if (wait.isWaiting) {
      // A call that was sent before the end of a place may name that place.
      if (server === wait.server && session === server.session && sent > wait.endedAt) {
        wait.phase = "in line";
        wait.session = session;
      }
    } else if (wait.phase !== "held") {
      this.finishLater(server, wait.key, wait.owner, 0);
    }
  }

  /** Forgets a wait. If the server may know it, returns its cancel, to be sent. */
  giveUp(wait: Claim): Release | undefined {
    const isKnown = wait.open > 0 || wait.phase === "in line" || wait.phase === "held";
    if (wait.phase !== "lost" && wait.phase !== "released") this.end(wait, "over", wait.failure);
    if (!isKnown) return undefined;
    wait.renounceOwner(); // an event of this wait may arrive after the cancel
    return this.finishLater(wait.server, wait.key, wait.owner, 0);
  }

  protected askAgain(wait: Claim): void {
    wait.phase = "asked";
    wait.session = 0;
    wait.changed();
  }

  /** The wait is over without a grant. */
  protected endWait(wait: Claim, failure: LockError): void {
    if (wait.isWaiting) this.end(wait, "over", failure);
  }

  /** The wait or grant does not count any more. */
  end(claim: Claim, phase: Phase, failure?: LockError): void {
    const { key, terms: { task } } = claim;
    if (task?.held.get(key) === claim) task.held.delete(key);
    claim.phase = phase;
    claim.failure = failure;
    this.#forgetIfOver(claim);
    claim.changed();
  }

  /** The grant ended before its holder released it. That is reported once. */
  protected lose(claim: Claim, reason: string): void {
    if (claim.phase === "lost") return;
    const { key } = claim;
    claim.renounceOwner();
    claim.doubt = "";
    this.end(claim, "lost", new LockLost(`${key}: the lock was lost: ${reason}. Stop the work under it`, { key, reason }));
  }

  /** Applies a grant. Returns false if it has to be given back. */
  protected granted(server: SessionState, name: string, token: number, session: number, till: number): boolean {
    const claim = this.claims.get(name);
    if (!claim || claim.isOver) return false;
    if (claim.phase !== "held" || (token > claim.token && !claim.isHandedOver)) {
      claim.phase = "held";
      claim.server = server;
      claim.token = token;
      claim.sure = till;
    } else if (token > claim.token) {
      return false; // the user counts on the earlier one
    } else if (token < claim.token || claim.session <= 0 || claim.server !== server) {
      return true; // an earlier grant, or one that has left the session since
    }
    claim.session = session;
    claim.sure = Math.max(claim.sure, till);
    claim.from = Math.max(claim.from, this.at);
    server.isUnsure ||= claim.sure <= this.at;
    server.isMoving ||= session !== server.session;
    claim.changed();
    return true;
  }

  /** Throws if the grant has ended. */
  requireHeld({ key, phase, failure }: Claim): void {
    if (phase === "lost") throw failure;
    if (this.isClosed) throw misuse(key, "the locks are closed");
    if (phase !== "held") throw misuse(key, "it was released already");
  }

  /**
   * The command that gives the grant this lease, for `confirmed`. `leaves`: it also takes the grant out of its session.
   * Until it is answered, no POLL counts.
   */
  renew(claim: Claim, lease: number, leaves: boolean): Words {
    const { server, session } = claim;
    if (leaves && session && session === server.session) server.leaves.push(idOf(claim.name, claim.token));
    claim.sure = Math.min(claim.sure, this.at + lease);
    claim.from = Infinity;
    return claim.renewCommand("PX", Math.ceil(lease), ...(leaves ? ["SESSION", 0] : []));
  }

  /** Applies the last reply to a check, a re-entry, a renewal or a raise. Throws unless it succeeded. */
  confirmed(call: Call, leaves = false): void {
    const { claim, sent } = call;
    const { fault, grant, loss } = this.#endCall(call);
    if (leaves && fault && !fault.noReply) this.endLeave(claim.server, idOf(claim.name, claim.token));
    if (!fault?.noReply && claim.from === Infinity) claim.from = this.at;
    if (loss !== undefined) this.lose(claim, loss);
    this.requireHeld(claim);
    if (fault) throw fault.error(claim.key, claim.server.address);
    if (grant) {
      claim.lease = grant.lease;
      claim.token = grant.token;
      claim.sure = Math.max(claim.sure, sent + grant.lease);
    }
    if (leaves) {
      claim.session = 0;
      claim.isHandedOver = true;
    }
  }

  /** Ends the leave of a grant: it has happened, or was refused. */
  protected endLeave(server: SessionState, grant: string): void {
    const place = server.leaves.indexOf(grant);
    if (place >= 0) server.leaves.splice(place, 1);
  }

  /** Takes a hold away, and returns the command for it: from here on it is not held. */
  release(claim: Claim): Words {
    this.requireHeld(claim);
    claim.holds -= 1;
    if (claim.holds === 0) this.end(claim, "released");
    return claim.releaseCommand();
  }

  /** Applies the last reply to a release. Throws unless it succeeded. */
  released(call: Call): void {
    const { claim, wasOpen } = call;
    const { server, session, holds, losses } = claim;
    const { fault, loss } = this.#endCall(call);
    if (!fault) return;
    if (loss !== undefined) {
      if (holds === 0 && wasOpen && !losses?.has(claim.token)) return;
      this.lose(claim, loss);
      throw claim.failure;
    }
    if (holds === 0) { // an inner hold's release is not repeated: a re-entry may have come between
      // If it was refused, the server would go on to renew the grant: leave its session.
      if (!fault.passing) server.isLeaving ||= session !== 0 && session === server.session;
      else this.finishLater(server, claim.key, claim.owner, claim.token, claim.releaseCommand());
    }
    throw fault.error(claim.key, server.address);
  }

  /** Ends a grant whose maximum time, or fixed lease, is over. Returns the release to send, or how long the grant lasts. */
  endByTime(claim: Claim, most: number): Release | number {
    const sure = claim.terms.isFixed ? claim.sure : Infinity;
    const end = Math.min(most, sure);
    if (claim.phase !== "held") return Infinity;
    if (this.at < end) return end - this.at;
    claim.holds = 0;
    this.lose(claim, sure <= most ? "expired" : "its maximum time is over");
    return this.finishLater(claim.server, claim.key, claim.owner, claim.token, claim.releaseCommand());
  }

  /** Another node of the cluster may have this grant. It is unsure until a RENEW there is answered. */
  protected suspect(claim: Claim, reason: string): void {
    if (reason !== "moved") claim.sure = Math.min(claim.sure, this.at);
    claim.doubt = reason;
    claim.session = -1;
    claim.seek();
  }

  /** Applies the last reply to the RENEW that takes a grant into a session, perhaps of another node. */
  moved(call: Call): void {
    const { claim, server, session, sent } = call;
    const { doubt } = claim;
    const { fault, grant, loss } = this.#endCall(call);
    if (!claim.isRenewed || (claim.server !== server && !doubt)) return; // it was released or moved meanwhile
    claim.doubt = "";
    if (loss !== undefined || (doubt === "deleted" && !grant)) {
      this.lose(claim, doubt || (loss ?? ""));
    } else if (grant) {
      claim.server = server;
      claim.session = session;
      if (sent > claim.from) { // else another RENEW was under way
        claim.sure = Math.max(claim.sure, sent + grant.lease);
        claim.from = this.at;
      }
    } else if (this.isCluster && fault?.redirects && !doubt) {
      this.suspect(claim, "moved");
    }
    claim.server.isMoving = true; // unless it is in the session, it is asked for again before the next POLL
  }
}
