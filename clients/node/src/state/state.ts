/**
 * What a client knows of all its servers, and the rules by which that changes. No I/O, timers or clock: replies and events
 * go in with the time, and commands that are due come out.
 */

import { type Claim, type SessionState, type Words, nameOf } from "./claim.ts";
import { Fault } from "./fault.ts";
import { misuse } from "./grants.ts";
import { releaseOf } from "./ledger.ts";
import { Waits } from "./waits.ts";

/** A command that is sent before a POLL, and what its reply, to a sending at this time, changes. */
export interface Due {
  readonly words: Words;
  readonly apply: (reply: unknown, sent: number) => void;
}

/** How long a POLL blocks while a grant is unsure. */
const BRIEF = 100;

/** A map, which RESP2 sends as a flat array. */
function fieldsOf(value: unknown): Map<unknown, unknown> {
  if (value instanceof Map) return value;
  if (!Array.isArray(value)) return new Map(Object.entries(value ?? {}));
  return new Map(Array.from({ length: value.length / 2 }, (_, i) => [value[2 * i], value[2 * i + 1]]));
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export class State extends Waits {
  /** Whether nothing depends on the session. */
  isIdle(server: SessionState): boolean {
    if (server.left.size + this.calls.size > 0) return false;
    for (const claim of this.claims.values()) {
      if (claim.server === server && !(claim.terms.isFixed && claim.isHandedOver)) return false;
    }
    for (const release of this.unfinished.values()) if (release.server === server) return false;
    return true;
  }

  /** Begins a session. */
  opened(server: SessionState, session: number): void {
    server.session = session;
    server.seen = 0;
    server.excess = undefined;
    server.fault = undefined;
    server.outside = true;
    this.#wakeWaits(server);
  }

  /** Leaves a session with a grant whose release was refused, so that the grant is not renewed forever. */
  leaveSession(server: SessionState): void {
    if (server.isLeaving && server.session) {
      server.left.set(server.session, this.at);
      this.sessionEnded(server);
    }
    server.isLeaving = false;
  }

  /** What is due before a POLL of the session, in the order of sending. */
  due(server: SessionState): Due[] {
    const due: Due[] = [];
    const { session, grants } = server;
    if (server.outside) {
      server.outside = false;
      for (const claim of grants) {
        if (claim.session === session || claim.doubt) continue;
        due.push({ words: claim.renewCommand("SESSION", session),
          apply: (reply, sent) => this.moved(claim, server, session, sent, reply) });
      }
      due.push(...this.#places(server));
    }
    for (const [of, how] of this.unfinished) {
      if (how.server !== server) continue;
      due.push({ words: how.words, apply: (reply) => {
        if (reply instanceof Fault && reply.redirects) {
          this.unfinished.delete(of);
          this.misplaced.push(how.words);
        } else if (this.unfinished.get(of) === how) {
          this.finished(of, reply);
        }
      } });
    }
    if (server.excess !== undefined && this.at > server.excess + this.lease) {
      const called = [...this.calls.values()];
      due.push({ words: ["LOCK.SESSION", "GRANTS", session], apply: (reply) => this.#listed(server, called, reply) });
    }
    for (const [old, since] of server.left) {
      if (this.at <= since + 2 * this.reply || [...grants].some((claim) => claim.session === old)) continue;
      due.push({ words: ["LOCK.SESSION", "CLOSE", old], apply: (reply) => {
        if (!(reply instanceof Fault && reply.passing) || reply.word === "NOSESSION") server.left.delete(old);
      } });
    }
    return due;
  }

  /** Asks for the places that went with an earlier session, in the order of their asking. */
  #places(server: SessionState): Due[] {
    const { session } = server;
    return [...this.claims.values()]
      .filter((it) => it.server === server && it.phase === "in line" && it.session !== session && it.end > this.at)
      .sort((one, other) => one.order - other.order)
      .map((wait) => {
        const call = this.beginCall(wait);
        wait.open += 1;
        return { words: wait.acquireCommand(session, this.at), apply: (reply, sent) => {
          this.answered(wait, server, session, sent, reply);
          server.outside ||= reply instanceof Fault;
          this.endCall(call);
        } };
      });
  }

  /** Releases the grants of the session that nobody knows, and nobody called about meanwhile. */
  #listed(server: SessionState, called: readonly Claim[], reply: unknown): void {
    server.excess = undefined;
    for (const row of listOf(reply).map(fieldsOf)) {
      const [key, owner, token] = [String(row.get("key")), String(row.get("owner")), Number(row.get("token"))];
      const name = nameOf(key, owner);
      const isKnown = this.claims.has(name) || this.isCalled(name) || called.some((claim) => claim.name === name);
      if (!isKnown && !this.unfinished.has(releaseOf(name, token))) this.finishLater(server, key, owner, token);
    }
  }

  /** How long a POLL that is sent now may block. */
  block(server: SessionState): number {
    return this.isUnsure(server) ? BRIEF : Math.floor(this.lease / 3);
  }

  /** Whether the time of a grant has passed, so that the next reply decides. */
  isUnsure(server: SessionState): boolean {
    if (this.at >= server.soonest) {
      server.soonest = Infinity;
      for (const claim of server.grants) server.soonest = Math.min(server.soonest, this.sure(claim));
    }
    return this.at >= server.soonest;
  }

  /** Applies the reply to a POLL that was sent at this time. */
  polled(server: SessionState, sent: number, reply: unknown): void {
    const fields = fieldsOf(reply);
    const sure = Number(fields.get("sure-ms"));
    const till = sent + (sure >= 0 ? sure : this.lease);
    for (const event of listOf(fields.get("events")) as unknown[][]) {
      const number = Number(event[0]);
      if (number <= server.seen) continue; // answered before
      server.seen = number;
      this.#event(server, event, till);
    }
    while ((server.sures.at(-1)?.till ?? Infinity) <= till) server.sures.pop();
    server.sures.push({ sent, till });
    if (Number(fields.get("grants")) <= server.grants.size + this.unfinished.size) server.excess = undefined;
    else server.excess ??= sent;
    server.fault = undefined;
    server.tries = [];
    this.#silent(server, sent);
  }

  #event(server: SessionState, [, kind, key, owner, detail, more]: unknown[], till: number): void {
    const name = nameOf(String(key), String(owner));
    const claim = this.claims.get(name);
    if (kind === "ended") {
      if (claim?.isWaiting) this.#ended(claim, String(detail));
      return;
    }
    const token = Number(detail);
    if (kind === "granted") {
      if (!this.granted(server, name, token, server.session, till) && !this.isCalled(name)) { // it was given up
        this.finishLater(server, String(key), String(owner), token);
      }
    } else if (kind === "lost" || kind === "taken") {
      const known = claim?.phase === "held" && claim.token === token ? claim : undefined;
      if (known?.leaves && kind === "taken" && Number(more) === 0) return; // by this client
      const reason = kind === "lost" ? String(more) : kind;
      const release = releaseOf(name, token);
      this.recordLoss(release, reason);
      this.unfinished.delete(release); // nothing is left to release
      if (!known || known.doubt || known.server !== server) return;
      if (this.isCluster && reason === "deleted") this.doubt(known, reason);
      else this.lose(known, reason);
    }
  }

  /** A wait has ended without a grant. */
  #ended(wait: Claim, why: string): void {
    const fault = Fault.reply(why);
    if (why === "timeout" || why === "cancelled") {
      this.endWait(wait, this.busy(wait, `the wait has ended (${why})`));
    } else if (fault.passing) {
      this.set(wait, "asked");
      wait.cause = fault;
    } else {
      this.endWait(wait, fault.error(wait.key, wait.server.address));
    }
  }

  /** A try to connect or to poll that began at this time failed. One that failed at once counts only after 1 s of tries. */
  failed(server: SessionState, began: number, fault: Fault): void {
    server.tries.push(began);
    server.fault = fault;
    for (let [first] = server.tries; first !== undefined && this.at >= first + this.reply; [first] = server.tries) {
      this.#silent(server, first);
      server.tries.shift();
    }
    if (!fault.passing) this.#wakeWaits(server);
  }

  #wakeWaits(server: SessionState): void {
    for (const claim of this.claims.values()) if (claim.server === server && claim.isWaiting) this.changed.push(claim);
  }

  /** Ends the grants that a POLL or connect which began then has not made sure again. */
  #silent(server: SessionState, since: number): void {
    if (since <= server.soonest) return;
    server.soonest = Infinity;
    for (const claim of server.grants) {
      const till = this.sure(claim);
      if (till >= since || claim.doubt) {
        server.soonest = Math.min(server.soonest, till);
      } else {
        this.finishLater(server, claim.key, claim.owner, claim.token);
        this.lose(claim, "silence");
      }
    }
  }

  /** The grants in the session of a server, and the places in line there. */
  claimsOn(server: SessionState): Claim[] {
    return [...this.claims.values()].filter((it) => it.server === server && (it.phase === "in line" || server.grants.has(it)));
  }

  /** Has a claim asked for at another node of the cluster, which has its key now. */
  relocate(claim: Claim): void {
    if (claim.phase === "in line") this.set(claim, "asked");
    else if (claim.phase === "held" && claim.session && !claim.doubt) this.doubt(claim, "moved");
  }

  /** Ends all waits and grants. Returns the grants. */
  close(): Claim[] {
    this.isClosed = true;
    const grants: Claim[] = [];
    for (const claim of [...this.claims.values()]) {
      if (claim.isWaiting) {
        this.endWait(claim, misuse(claim.key, "the locks are closed"));
        continue;
      }
      this.forget(claim);
      claim.phase = "released";
      claim.holds = 0;
      this.changed.push(claim);
      grants.push(claim);
    }
    return grants;
  }
}
