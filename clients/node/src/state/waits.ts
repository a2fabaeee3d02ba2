/** Waits: acquires that have no grant yet. */

import { LockBusy, type LockError } from "../errors.ts";
import type { Claim, Phase, SessionState } from "./claim.ts";
import { Fault } from "./fault.ts";
import { Grants, misuse } from "./grants.ts";
import { grantOf, releaseOf } from "./ledger.ts";

/** How soon a caller looks again at a grant that the next POLL makes sure. */
const SOON = 5;

export class Waits extends Grants {
  #asked = 0;

  /** Registers a wait before its call is sent: its event may arrive before its reply. */
  ask(wait: Claim): void {
    if (this.isClosed) throw misuse(wait.key, "the locks are closed");
    if (this.claims.has(wait.name)) throw misuse(wait.key, "this owner waits for the lock, or has it, already");
    this.#asked += 1;
    wait.order = this.#asked;
    this.claims.set(wait.name, wait);
  }

  /**
   * What the caller of an acquire does next: it has the grant, sends the ACQUIRE, or waits for so long or until the claim
   * has changed. Throws if the acquire has failed.
   */
  step(wait: Claim): "done" | "send" | number {
    const { phase, server } = wait;
    if (phase === "over") throw wait.failure ?? misuse(wait.key, "it was given up");
    if (phase === "lost" || phase === "released") this.requireHeld(wait);
    if (phase === "held") {
      if (this.sure(wait) <= this.at) return SOON;
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
    const fault = reply instanceof Fault ? reply : undefined;
    if (fault?.noReply) wait.renounceOwner();
    else wait.open -= 1;
    const grant = grantOf(reply);
    if (grant) {
      if (!this.granted(server, wait.name, grant.token, session, sent + grant.lease)) {
        this.finishLater(server, wait.key, wait.owner, grant.token);
      }
    } else if (fault && !fault.passing) {
      this.endWait(wait, fault.error(wait.key, server.address));
    } else if (fault) {
      wait.cause = fault;
      if (fault.word === "NOSESSION" && session === server.session) this.sessionEnded(server);
      const isPlaceGone = wait.phase === "in line" && wait.session !== server.session;
      if (fault.redirects && isPlaceGone) this.set(wait, "asked");
    } else if (reply === null) {
      this.endWait(wait, this.busy(wait, "it is not free"));
    } else if (wait.isWaiting) {
      if (server === wait.server && session === server.session) {
        wait.phase = "in line";
        wait.session = session;
      }
    } else if (wait.phase !== "held") {
      this.finishLater(server, wait.key, wait.owner, 0);
    }
  }

  /** Forgets a wait. True if the server may know it: then its cancel is sent, for `cancelAnswered`. */
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

  /** Applies the reply to the cancel of a wait that was given up. */
  cancelAnswered(wait: Claim, reply: unknown): void {
    this.finished(releaseOf(wait.name, 0), reply);
  }

  /** The leases of the grants of a session that has ended run on. */
  sessionEnded(server: SessionState): void {
    for (const claim of server.grants) claim.ownSure = this.sure(claim);
    server.session = 0;
    server.sures = [];
  }

  protected busy({ key }: Claim, why: string): LockError {
    return new LockBusy(`${key}: other owners hold it or wait for it: ${why}`, { key });
  }

  /** The wait is over without a grant. */
  protected endWait(wait: Claim, failure: LockError): void {
    if (!wait.isWaiting) return;
    this.forget(wait);
    this.set(wait, "over", failure);
  }

  protected set(wait: Claim, phase: Phase, failure?: LockError): void {
    wait.phase = phase;
    wait.session = 0;
    wait.failure = failure;
    this.changed.push(wait);
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
      claim.server.grants.delete(claim);
      claim.phase = "held";
      claim.server = server;
      claim.token = token;
      claim.session = session;
      claim.ownSure = till;
      claim.from = this.at;
      server.grants.add(claim);
      server.soonest = Math.min(server.soonest, till);
    } else if (token > claim.token) {
      return false; // the user counts on the earlier one
    } else if (token < claim.token || claim.session === 0 || claim.server !== server) {
      return true; // an earlier grant, or one that has left the session since
    } else {
      claim.ownSure = Math.max(this.sure(claim), till);
      claim.session = session;
      claim.from = Math.max(claim.from, this.at);
    }
    server.outside ||= session !== server.session;
    this.changed.push(claim);
    return true;
  }
}
