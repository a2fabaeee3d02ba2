/** What becomes of a grant that the user has. */

import { type LockError, LockMisuse } from "../errors.ts";
import type { Claim, SessionState, Words } from "./claim.ts";
import { Fault } from "./fault.ts";
import { Ledger, grantOf, releaseOf } from "./ledger.ts";

/** What became of a call about a grant. */
export interface Answer {
  /** The last reply, or its Fault, and when that try was sent. */
  readonly reply: unknown;
  readonly sent: number;
  /** An earlier try had no reply. */
  readonly wasOpen: boolean;
}

export class Grants extends Ledger {
  /** The command that asks whether the grant stands, for `confirmed`. */
  check(claim: Claim): Words {
    this.requireHeld(claim);
    return ["LOCK.FENCE", claim.key, claim.token];
  }

  /** The command that adds a hold, for `confirmed`. */
  enter(claim: Claim, mode: Words): Words {
    this.requireHeld(claim);
    return ["LOCK.ACQUIRE", claim.key, claim.owner, ...mode, "PX", Math.ceil(claim.lease), "HOLDS", claim.holds + 1,
      "TOKEN", claim.token];
  }

  /**
   * The command that gives the grant this lease, for `confirmed`. `leaves`: it also takes the grant out of its session.
   * Until it is answered, no POLL counts.
   */
  renew(claim: Claim, lease: number, leaves: boolean): Words {
    this.requireHeld(claim);
    claim.ownSure = Math.min(this.sure(claim), this.at + lease);
    claim.from = Infinity;
    claim.leaves = leaves;
    claim.server.soonest = Math.min(claim.server.soonest, claim.ownSure);
    return claim.renewCommand("PX", Math.ceil(lease), ...(leaves ? ["SESSION", 0] : []));
  }

  /** The command that lifts the token, for `confirmed`: a quorum gives all its servers one. */
  raise(claim: Claim, token: number): Words {
    this.requireHeld(claim);
    return claim.renewCommand("RAISE", token);
  }

  /** Applies what became of a check, a re-entry, a renewal or a raise. Throws unless it succeeded. */
  confirmed(claim: Claim, { reply, sent }: Answer): void {
    const fault = reply instanceof Fault ? reply : undefined;
    if (fault?.noReply) claim.renounceOwner();
    else if (claim.from === Infinity) claim.from = this.at;
    if (fault?.gone) this.lose(claim, this.#reason(claim, fault));
    this.requireHeld(claim);
    if (fault) {
      claim.leaves &&= claim.from === Infinity;
      throw fault.error(claim.key, claim.server.address);
    }
    const grant = grantOf(reply);
    if (grant) {
      claim.lease = grant.lease;
      claim.token = grant.token;
      claim.ownSure = Math.max(this.sure(claim), sent + grant.lease);
      const loss = this.lossOf(claim.name, grant.token); // of a raised token, reported before the reply
      if (loss) this.lose(claim, loss);
      this.requireHeld(claim);
    }
    if (claim.leaves) {
      claim.session = 0;
      claim.isHandedOver = true;
      claim.server.grants.delete(claim);
    }
  }

  /** Forgets a grant that has left the session, and is left to others. */
  letGo(claim: Claim): void {
    this.forget(claim);
    claim.phase = "released";
    claim.renounceOwner();
  }

  /** Takes a hold away, and returns the command for it: from here on it is not held. */
  release(claim: Claim): Words {
    this.requireHeld(claim);
    claim.holds -= 1;
    if (claim.holds === 0) {
      this.forget(claim);
      claim.phase = "released";
    }
    return claim.releaseCommand();
  }

  /** Applies what became of a release. Throws unless it succeeded. */
  released(claim: Claim, { reply, wasOpen }: Answer): void {
    const fault = reply instanceof Fault ? reply : undefined;
    if (wasOpen || fault?.noReply) claim.renounceOwner();
    if (!fault) return;
    if (fault.gone) {
      if (claim.holds === 0 && wasOpen && this.lossOf(claim.name, claim.token) === undefined) return;
      this.lose(claim, this.#reason(claim, fault));
      throw this.lost(claim);
    }
    if (claim.holds === 0) { // an inner hold's release is not repeated: a re-entry may have come between
      // If it was refused, the server would go on to renew the grant: leave its session.
      if (!fault.passing) claim.server.isLeaving ||= claim.session !== 0 && claim.session === claim.server.session;
      else this.finishLater(claim.server, claim.key, claim.owner, claim.token, claim.releaseCommand());
    }
    throw fault.error(claim.key, claim.server.address);
  }

  /**
   * Ends a grant whose maximum time, or fixed lease, is over. Returns the release to send, for `ended`, or how long the
   * grant lasts.
   */
  endByTime(claim: Claim, most: number): Words | number {
    const sure = claim.terms.isFixed ? this.sure(claim) : Infinity;
    const end = Math.min(most, sure);
    if (claim.phase !== "held") return Infinity;
    if (this.at < end) return end - this.at;
    claim.holds = 0;
    const command = claim.releaseCommand();
    this.finishLater(claim.server, claim.key, claim.owner, claim.token, command);
    this.lose(claim, sure <= most ? "expired" : "its maximum time is over");
    return command;
  }

  /** Applies the reply to the release of `endByTime`. */
  ended(claim: Claim, reply: unknown): void {
    this.finished(releaseOf(claim.name, claim.token), reply);
  }

  /** Another node of the cluster may have this grant. It is unsure until `found`. */
  protected doubt(claim: Claim, reason: string): void {
    claim.ownSure = this.sure(claim);
    if (reason !== "moved") claim.ownSure = Math.min(claim.ownSure, this.at);
    claim.doubt = reason;
    claim.session = 0;
    this.elsewhere.push(claim);
  }

  /** Applies what became of the RENEW of a grant that this server may have, in this session of it. */
  found(claim: Claim, server: SessionState, session: number, { reply, sent }: Answer): void {
    const grant = grantOf(reply);
    if (claim.phase !== "held" || !claim.doubt) return; // it was released meanwhile
    if (grant && this.lossOf(claim.name, claim.token) === undefined) {
      claim.server.grants.delete(claim);
      server.grants.add(claim);
      claim.server = server;
      claim.doubt = "";
      claim.session = session;
      claim.from = this.at;
      claim.ownSure = Math.max(claim.ownSure, sent + grant.lease);
      server.soonest = Math.min(server.soonest, claim.ownSure);
      server.outside = true;
    } else if (claim.doubt === "moved" && reply instanceof Fault && reply.passing) { // it is asked for again
      claim.doubt = "";
      claim.server.outside = true;
    } else {
      this.lose(claim, claim.doubt);
    }
  }

  /** Applies the reply to the RENEW by which the loop moves a grant into this session. */
  protected moved(claim: Claim, server: SessionState, session: number, sent: number, reply: unknown): void {
    if (!server.grants.has(claim)) return;
    const grant = grantOf(reply);
    if (grant) {
      claim.session = session;
      if (sent > claim.from) { // no other RENEW was under way
        claim.ownSure = Math.max(claim.ownSure, sent + grant.lease);
        claim.from = this.at;
      }
    } else if (reply instanceof Fault && reply.gone) {
      this.lose(claim, this.#reason(claim, reply));
    } else if (this.isCluster && reply instanceof Fault && reply.redirects) {
      this.doubt(claim, "moved");
    } else {
      server.outside = true;
    }
  }

  /** Of a loss: what the server reported, or else its reply. */
  #reason(claim: Claim, fault: Fault): string {
    return this.lossOf(claim.name, claim.token) ?? `gone (${fault.word})`;
  }
}

/** For calls that a grant cannot make. */
export const misuse = (key: string, what: string): LockError => new LockMisuse(`${key}: ${what}`, { key });
