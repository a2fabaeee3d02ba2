/**
 * What a client knows of all its servers, and the rules by which that changes. No I/O, timers or clock: replies and events
 * go in with the time, and commands that are due come out.
 */

import { type Call, type Claim, type SessionState, type Words, nameOf } from "./claim.ts";
import { Claims, type Release, idOf, misuse } from "./claims.ts";
import { Fault } from "./fault.ts";

/** A command that is sent before a POLL, and what its reply changes. */
export interface Due {
  readonly words: Words;
  readonly apply: (reply: unknown) => void;
  /** It is this release, which is unfinished. */
  readonly release?: Release;
}

/** How long a POLL blocks while a grant is unsure. */
const BRIEF = 100;
/** How often the claims are gone through at most, while no grant is unsure. */
const SWEEP = 50;

/** A field of a map, which RESP2 sends as a flat array. */
function fieldOf(map: unknown, name: string): unknown {
  if (Array.isArray(map)) return map[map.indexOf(name) + 1];
  return map instanceof Map ? map.get(name) : (map as Record<string, unknown>)[name];
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export class State extends Claims {
  /** Whether nothing depends on the session. */
  isIdle(server: SessionState): boolean {
    const isUnfinished = [...this.unfinished.values()].some((release) => release.server === server);
    const isCalled = [...this.claims.values()].some(({ calls }) => calls > 0);
    return server.left.size + this.claimsOn(server).length === 0 && !isCalled && !isUnfinished;
  }

  /** Begins a session. */
  opened(server: SessionState, session: number): void {
    server.session = session;
    server.seen = 0;
    server.excess = undefined;
    server.fault = undefined;
    server.isMoving = true;
    server.leaves = [];
    for (const claim of this.claimsOn(server)) claim.changed();
  }

  /** Leaves a session with a grant whose release was refused, so that the grant is not renewed forever. */
  leaveSession(server: SessionState): void {
    if (server.isLeaving && server.session) {
      server.left.set(server.session, this.at);
      server.session = 0;
    }
    server.isLeaving = false;
  }

  /** What is due before a POLL of the session, in the order of sending. */
  due(server: SessionState): Due[] {
    const due: Due[] = [];
    const { session } = server;
    const claims = server.isMoving ? this.claimsOn(server).filter((claim) => claim.session !== session) : [];
    server.isMoving = false;
    const move = (claim: Claim, words: Words, answered: (call: Call) => void): void => {
      const call = this.beginCall(claim);
      due.push({ words, apply: (reply) => answered(Object.assign(call, { reply })) });
    };
    for (const claim of claims) {
      if (claim.phase === "in line" && claim.end > this.at) { // its place went with the earlier session
        claim.open += 1;
        move(claim, claim.acquireCommand(session, this.at), (call) => {
          this.answered(call);
          server.isMoving = true;
        });
      } else if (claim.isRenewed && !claim.doubt) {
        move(claim, claim.renewCommand("SESSION", session), (call) => this.moved(call));
      }
    }
    for (const release of this.unfinished.values()) {
      if (release.server === server) due.push({ words: release.words, release, apply: (reply) => this.finished(release, reply) });
    }
    if (server.excess !== undefined && this.at > server.excess + this.lease) {
      due.push({ words: ["LOCK.SESSION", "GRANTS", session], apply: (reply) => this.#listed(server, reply) });
    }
    for (const [old, since] of server.left) {
      if (this.at <= since + 2 * this.reply || this.claimsOn(server).some((it) => it.isRenewed && it.session === old)) continue;
      due.push({ words: ["LOCK.SESSION", "CLOSE", old], apply: (reply) => {
        if (!(reply instanceof Fault && reply.passing) || reply.word === "NOSESSION") server.left.delete(old);
      } });
    }
    return due;
  }

  /** Releases the grants of the session that nobody knows. A grant that was released meanwhile is not harmed. */
  #listed(server: SessionState, reply: unknown): void {
    server.excess = undefined;
    for (const row of listOf(reply)) {
      const [key, owner] = [String(fieldOf(row, "key")), String(fieldOf(row, "owner"))];
      const token = Number(fieldOf(row, "token"));
      const name = nameOf(key, owner);
      const isKnown = this.claims.has(name) || this.unfinished.has(idOf(name, token));
      if (!isKnown) this.finishLater(server, key, owner, token);
    }
  }

  /** How long a POLL that is sent now may block. */
  block(server: SessionState): number {
    return server.isUnsure ? BRIEF : Math.floor(this.lease / 3);
  }

  /** Applies the reply to a POLL that was sent at this time. */
  polled(server: SessionState, sent: number, reply: unknown): void {
    const sure = Number(fieldOf(reply, "sure-ms"));
    const till = sent + (sure >= 0 ? sure : this.lease);
    for (const event of listOf(fieldOf(reply, "events")) as unknown[][]) {
      const number = Number(event[0]);
      if (number <= server.seen) continue; // answered before
      server.seen = number;
      this.#event(server, event, till);
    }
    server.fault = undefined;
    server.tries = [];
    if (!server.isUnsure && this.at < server.swept + SWEEP) return;
    const known = this.#sweep(server, sent, till);
    if (Number(fieldOf(reply, "grants")) <= known + this.unfinished.size) server.excess = undefined;
    else server.excess ??= sent;
  }

  #event(server: SessionState, [, kind, key, owner, detail, more]: unknown[], till: number): void {
    const name = nameOf(String(key), String(owner));
    const claim = this.claims.get(name);
    if (kind === "ended") {
      if (claim?.isWaiting) this.#ended(claim, String(detail));
      return;
    }
    const token = Number(detail);
    const known = claim?.phase === "held" && claim.token === token ? claim : undefined;
    const grant = idOf(name, token);
    const leaves = server.leaves.includes(grant); // what follows is the doing of this client
    if (leaves && kind === "taken" && Number(more) === 0) {
      this.endLeave(server, grant);
    } else if (kind === "granted") {
      if (leaves) return;
      if (!this.granted(server, name, token, server.session, till) && !claim?.calls) { // it was given up
        this.finishLater(server, String(key), String(owner), token);
      }
    } else if (kind === "lost" || kind === "taken") {
      const reason = kind === "lost" ? String(more) : kind;
      const mayHaveMoved = known && this.isCluster && reason === "deleted"; // its slot: a search decides
      if (claim?.calls && !mayHaveMoved) (claim.losses ??= new Map()).set(token, reason);
      this.unfinished.delete(grant); // nothing is left to release
      if (!known || known.doubt || known.server !== server) return;
      if (mayHaveMoved) this.suspect(known, reason);
      else this.lose(known, reason);
    }
  }

  /** A wait has ended without a grant. */
  #ended(wait: Claim, why: string): void {
    const fault = Fault.reply(why);
    if (!fault.passing) {
      this.endWait(wait, fault.error(wait.key, wait.server.address));
      return;
    }
    this.askAgain(wait);
    wait.cause = fault;
    wait.endedAt = this.at;
  }

  /** A try to connect or to poll that began at this time failed. One that failed at once counts after a reply timeout of tries. */
  failed(server: SessionState, began: number, fault: Fault): void {
    server.tries.push(began);
    server.fault = fault;
    const [old] = server.tries.filter((since) => this.at >= since + this.reply).slice(-1);
    server.tries = server.tries.filter((since) => this.at < since + this.reply);
    this.#sweep(server, old ?? 0, 0);
    if (!fault.passing) for (const claim of this.claimsOn(server)) claim.changed();
  }

  /**
   * Goes through the grants: makes those of the session sure that were known when the POLL was sent, and ends those that a
   * POLL or connect which began then has not made sure. Returns how many there are.
   */
  #sweep(server: SessionState, sent: number, till: number): number {
    let known = 0;
    server.swept = this.at;
    server.isUnsure = false;
    for (const claim of this.claims.values()) {
      if (claim.server !== server || !claim.isRenewed) continue;
      known += 1;
      if (claim.session === server.session && claim.from < sent) claim.sure = Math.max(claim.sure, till);
      if (claim.sure < sent && !claim.doubt) {
        this.finishLater(server, claim.key, claim.owner, claim.token);
        this.lose(claim, "silence");
      } else if (claim.sure <= this.at) {
        server.isUnsure = true;
      } else if (!claim.isHandedOver) {
        claim.changed();
      }
    }
    return known;
  }

  /** The waits at a server, and the grants in its session. */
  claimsOn(server: SessionState): Claim[] {
    return [...this.claims.values()].filter((it) => it.server === server && (it.isWaiting || it.isRenewed));
  }

  /** Has a claim asked for at another node of the cluster, which has its key now. */
  relocate(claim: Claim): void {
    if (claim.phase === "in line") this.askAgain(claim);
    else if (claim.phase === "held" && claim.session && !claim.doubt) this.suspect(claim, "moved");
  }

  /** Ends all waits and grants. Returns the grants. */
  close(): Claim[] {
    this.isClosed = true;
    const claims = [...this.claims.values()];
    for (const claim of claims) this.endWait(claim, misuse(claim.key, "the locks are closed"));
    const grants = claims.filter(({ phase }) => phase === "held");
    for (const claim of grants) {
      claim.holds = 0;
      this.end(claim, "released");
    }
    return grants;
  }
}
