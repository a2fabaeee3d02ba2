/** The rules of a claim: of a wait until it is granted, and of the grant that the user has. */

import { LockBusy, type LockError } from "../errors.ts";
import type { Claim, Phase, SessionState, Words } from "./claim.ts";
import { Fault } from "./fault.ts";
import { Ledger, misuse } from "./ledger.ts";

/** The outcome of a call about a grant. */
export interface Answer {
  /** The last reply, or its Fault, and when that try was sent. */
  readonly reply: unknown;
  readonly sent: number;
  /** An earlier try had no reply. */
  readonly wasOpen: boolean;
}

/** The token and the lease of a reply that is a grant. */
function grantOf(reply: unknown): { readonly token: number; readonly lease: number } | undefined {
  return Array.isArray(reply) && reply.length > 3 ? { token: Number(reply[0]), lease: Number(reply[3]) } : undefined;
}

export class Claims extends Ledger {
  /** Registers a wait before its call is sent: its event may arrive before its reply. */
  ask(wait: Claim): void {
    if (this.isClosed) throw misuse(wait.key, "the locks are closed");
    if (this.claims.has(wait.name)) throw misuse(wait.key, "this owner already waits for the lock or holds it");
    this.claims.set(wait.name, wait);
    if (wait.task) wait.task.name = wait.owner;
  }

  /**
   * What the caller of an acquire does next: it has the grant, sends the ACQUIRE, or waits for so long or until the claim
   * has changed. Throws if the acquire has failed.
   */
  step(wait: Claim): "done" | "send" | number {
    const { phase, server } = wait;
    if (phase === "over") throw wait.failure ?? misuse(wait.key, "it was given up");
    if (!wait.isWaiting) {
      this.requireHeld(wait);
      if (wait.sure <= this.at) return Infinity; // the next POLL makes it sure, or it is lost
      wait.isHandedOver = !wait.terms.isFixed; // else when it has left the session
      return "done";
    }
    if (!server.session && server.fault && !server.fault.passing) throw server.fault.error(wait.key, server.address);
    const end = phase === "asked" ? wait.askedEnd : wait.last;
    if (this.at >= end) {
      if (phase === "in line" && wait.session === server.session) throw this.busy(wait, "the time to wait is over");
      throw this.unavailable(wait);
    }
    if (phase === "in line" || !server.session) return end - this.at;
    wait.open += 1;
    return "send";
  }

  /** Applies the reply to an ACQUIRE that was sent at this time to this server, in this session. */
  answered(wait: Claim, server: SessionState, session: number, sent: number, reply: unknown): void {
    const grant = grantOf(reply);
    if (!(reply instanceof Fault && reply.noReply)) wait.open -= 1;
    if (grant) {
      if (!this.granted(server, wait.name, grant.token, session, sent + grant.lease)) {
        this.finishLater(server, wait.key, wait.owner, grant.token);
      }
    } else if (reply instanceof Fault) {
      this.#failed(wait, server, session, reply);
    } else if (reply === null) {
      this.endWait(wait, this.busy(wait, "it is not free"));
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

  #failed(wait: Claim, server: SessionState, session: number, fault: Fault): void {
    if (!fault.passing) {
      this.endWait(wait, fault.error(wait.key, server.address));
      return;
    }
    wait.cause = fault;
    if (fault.noReply) wait.renounceOwner();
    if (fault.word === "NOSESSION" && session === server.session) server.session = 0;
    if (fault.redirects && wait.phase === "in line" && wait.session !== server.session) this.set(wait, "asked");
  }

  /** Forgets a wait. True if the server may know it: then its cancel is sent, for `finished`. */
  giveUp(wait: Claim): boolean {
    const isKnown = wait.open > 0 || wait.phase === "in line" || wait.phase === "held";
    if (wait.phase !== "lost" && wait.phase !== "released") {
      this.forget(wait);
      wait.phase = "over";
    }
    if (isKnown) {
      this.finishLater(wait.server, wait.key, wait.owner, 0);
      wait.renounceOwner(); // an event of this wait may arrive after the cancel
    }
    return isKnown;
  }

  protected busy({ key }: Claim, why: string): LockError {
    return new LockBusy(`${key}: other owners hold it or wait for it: ${why}`, { key });
  }

  /** The wait is over without a grant. */
  protected endWait(wait: Claim, failure: LockError): void {
    if (!wait.isWaiting) return;
    this.forget(wait);
    wait.failure = failure;
    this.set(wait, "over");
  }

  protected set(wait: Claim, phase: Phase): void {
    wait.phase = phase;
    wait.session = 0;
    wait.changed();
  }

  /** Applies a grant. Returns false if it has to be given back. */
  protected granted(server: SessionState, name: string, token: number, session: number, till: number): boolean {
    const claim = this.claims.get(name);
    if (this.lossOf(name, token) !== undefined) { // its loss was reported before: it is no grant
      if (claim?.isWaiting) this.set(claim, "asked");
      return true;
    }
    if (!claim) return false;
    if (claim.phase !== "held" || (token > claim.token && !claim.isHandedOver)) {
      claim.phase = "held";
      claim.server = server;
      claim.token = token;
      claim.sure = till;
    } else if (token > claim.token) {
      return false; // the user counts on the earlier one
    } else if (token < claim.token || claim.session === 0 || claim.server !== server) {
      return true; // an earlier grant, or one that has left the session since
    }
    claim.session = session;
    claim.sure = Math.max(claim.sure, till);
    claim.from = Math.max(claim.from, this.at);
    server.isUnsure ||= claim.sure <= this.at;
    if (session !== server.session) server.moves.add(claim);
    claim.changed();
    return true;
  }

  /**
   * The command that gives the grant this lease, for `confirmed`. `leaves`: it also takes the grant out of its session.
   * Until it is answered, no POLL counts.
   */
  renew(claim: Claim, lease: number, leaves: boolean): Words {
    this.requireHeld(claim);
    claim.sure = Math.min(claim.sure, this.at + lease);
    claim.from = Infinity;
    claim.leaves = leaves;
    return claim.renewCommand("PX", Math.ceil(lease), ...(leaves ? ["SESSION", 0] : []));
  }

  /** Applies what became of a check, a re-entry, a renewal or a raise. Throws unless it succeeded. */
  confirmed(claim: Claim, { reply, sent }: Answer): void {
    const fault = reply instanceof Fault ? reply : undefined;
    if (fault?.noReply) claim.renounceOwner();
    else if (claim.from === Infinity) claim.from = this.at;
    if (fault?.gone) this.lose(claim, this.reasonOf(claim, fault));
    this.requireHeld(claim);
    if (fault) {
      claim.leaves &&= claim.session === 0 || claim.from === Infinity;
      throw fault.error(claim.key, claim.server.address);
    }
    const grant = grantOf(reply);
    if (grant) {
      claim.lease = grant.lease;
      claim.token = grant.token;
      claim.sure = Math.max(claim.sure, sent + grant.lease);
      const loss = this.lossOf(claim.name, grant.token); // of a raised token, reported before the reply
      if (loss) this.lose(claim, loss);
      this.requireHeld(claim);
    }
    if (claim.leaves) {
      claim.session = 0;
      claim.isHandedOver = true;
    }
  }

  /** Takes a hold away, and returns the command for it: from here on it is not held. */
  release(claim: Claim): Words {
    this.requireHeld(claim);
    claim.holds -= 1;
    if (claim.holds === 0) this.letGo(claim);
    return claim.releaseCommand();
  }

  /** Forgets a grant that is released, or left to others. */
  letGo(claim: Claim): void {
    this.forget(claim);
    claim.phase = "released";
  }

  /** Applies what became of a release. Throws unless it succeeded. */
  released(claim: Claim, { reply, wasOpen }: Answer): void {
    const fault = reply instanceof Fault ? reply : undefined;
    if (wasOpen || fault?.noReply) claim.renounceOwner();
    if (!fault) return;
    if (fault.gone) {
      if (claim.holds === 0 && wasOpen && this.lossOf(claim.name, claim.token) === undefined) return;
      this.lose(claim, this.reasonOf(claim, fault));
      throw claim.failure;
    }
    if (claim.holds === 0) { // an inner hold's release is not repeated: a re-entry may have come between
      // If it was refused, the server would go on to renew the grant: leave its session.
      if (!fault.passing) claim.server.isLeaving ||= claim.session !== 0 && claim.session === claim.server.session;
      else this.finishLater(claim.server, claim.key, claim.owner, claim.token, claim.releaseCommand());
    }
    throw fault.error(claim.key, claim.server.address);
  }

  /**
   * Ends a grant whose maximum time, or fixed lease, is over. Returns the release to send, for `finished`, or how long the
   * grant lasts.
   */
  endByTime(claim: Claim, most: number): Words | number {
    const sure = claim.terms.isFixed ? claim.sure : Infinity;
    const end = Math.min(most, sure);
    if (claim.phase !== "held") return Infinity;
    if (this.at < end) return end - this.at;
    claim.holds = 0;
    const command = claim.releaseCommand();
    this.finishLater(claim.server, claim.key, claim.owner, claim.token, command);
    this.lose(claim, sure <= most ? "expired" : "its maximum time is over");
    return command;
  }

  /** Another node of the cluster may have this grant. It is unsure until `found`. */
  protected suspect(claim: Claim, reason: string): void {
    if (reason !== "moved") claim.sure = Math.min(claim.sure, this.at);
    claim.doubt = reason;
    claim.session = 0;
    claim.changed();
  }

  /** Applies what became of the RENEW of a grant that this server may have, in this session of it. */
  found(claim: Claim, server: SessionState, session: number, { reply, sent }: Answer): void {
    const grant = grantOf(reply);
    if (claim.phase !== "held" || !claim.doubt) return; // it was released meanwhile
    if (grant && this.lossOf(claim.name, claim.token) === undefined) {
      claim.server = server;
      claim.doubt = "";
      claim.session = session;
      claim.from = this.at;
      claim.sure = Math.max(claim.sure, sent + grant.lease);
    } else if (claim.doubt === "moved" && reply instanceof Fault && reply.passing) { // it is asked for again
      claim.doubt = "";
    } else {
      this.lose(claim, claim.doubt);
    }
    claim.server.moves.add(claim);
  }

  /** Applies the reply to the RENEW by which the loop moves a grant into this session. */
  protected moved(claim: Claim, server: SessionState, session: number, sent: number, reply: unknown): void {
    if (!claim.isRenewed || claim.server !== server) return;
    const grant = grantOf(reply);
    if (grant) {
      claim.session = session;
      if (sent <= claim.from) return; // another RENEW was under way
      claim.sure = Math.max(claim.sure, sent + grant.lease);
      claim.from = this.at;
    } else if (reply instanceof Fault && reply.gone) {
      this.lose(claim, this.reasonOf(claim, reply));
    } else if (this.isCluster && reply instanceof Fault && reply.redirects) {
      this.suspect(claim, "moved");
    } else {
      server.moves.add(claim);
    }
  }

  /** Of a loss: what the server reported, or else its reply. */
  protected reasonOf(claim: Claim, fault: Fault): string {
    return this.lossOf(claim.name, claim.token) ?? `gone (${fault.word})`;
  }
}
