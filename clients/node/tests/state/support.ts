/**
 * The rules of docs/client-protocol.md, by plain calls without a server. † marks what its model cannot do without. The clock
 * starts at 100 s, the lease is 10 s, a reply takes at most 1 s, and session 7 is open.
 */

import assert from "node:assert/strict";
import { beforeEach } from "node:test";
import type { LockLost } from "../../src/errors.ts";
import { type Call, Claim, type Terms, SessionState } from "../../src/state/claim.ts";
import { Fault } from "../../src/state/fault.ts";
import { State } from "../../src/state/state.ts";

export const NO_REPLY = Fault.none("timeout", true);
export const NOT_SENT = Fault.none("refused", false);
export const GONE = ["NOTHELD x", "NOTOWNER x", "FENCED x", "WRONGTYPE x"];
export const S = 1000;

export const grant = (token: number, lease = 10 * S): unknown[] => [token, "o", 1, lease];
export const granted = (key: string, token: number): unknown[] => ["granted", key, "o", token, 1, 10 * S, 1];
export const lost = (key: string, token: number, reason = "deleted"): unknown[] => ["lost", key, "o", token, reason];
export const ended = (key: string, why: string): unknown[] => ["ended", key, "o", why];

export let s: State;
export let server: SessionState;
/** Those that have changed. */
export let changed: Claim[];
/** Those to be asked for where their keys are now. */
export let sought: Claim[];

export function start(isCluster = false): void {
  s = new State(10 * S, S, isCluster);
  s.at = 100 * S;
  server = new SessionState("server");
  s.opened(server, 7);
  [changed, sought] = [[], []];
}

beforeEach(() => start());

/** The session has ended, and session 8 is open. */
export function reopen(): void {
  server.session = 0;
  s.opened(server, 8);
}

class TestClaim extends Claim {
  override changed(): void { changed.push(this); }
  override seek(): void { sought.push(this); }
}

interface Words extends Partial<Terms> {
  readonly owner?: string;
}

/** Later, since each call of the state has a time of its own. */
export const tick = (): void => { s.at += 0.001; };

export function claimOf(key: string, { owner = "o", ...terms }: Words = {}): Claim {
  const all = { mode: [], lease: 10 * S, isFixed: false, wait: 5 * S, maxHold: Infinity, ...terms };
  const claim = new TestClaim(key, owner, all, server, s.reply, s.at);
  s.ask(claim);
  return claim;
}

/** The last ACQUIRE of each claim. */
export const asked = new Map<Claim, Call>();

/** The next step of the claim is an ACQUIRE. */
export function sends(claim: Claim): void {
  const step = s.step(claim);
  assert(typeof step === "object");
  asked.set(claim, step);
}

/** A wait whose ACQUIRE is under way. */
export function underWay(key = "k", words: Words = {}): Claim {
  const claim = claimOf(key, words);
  sends(claim);
  return claim;
}

export const answer = (claim: Claim, reply: unknown, sent = s.at): void => {
  const call = asked.get(claim);
  assert(call);
  s.answered(Object.assign(call, { reply, sent }));
};

export function inLine(key = "k", words: Words = {}): Claim {
  const claim = underWay(key, words);
  answer(claim, 0);
  assert.equal(claim.phase, "in line");
  return claim;
}

/** A grant that the user has, sure for 10 s. */
export function taken(key = "k", token = 50, words: Words = {}): Claim {
  const claim = underWay(key, words);
  answer(claim, grant(token));
  assert.equal(s.step(claim), "done");
  tick();
  return claim;
}

/** Sends a POLL. The result applies its reply. */
export function polling(): (sure: number, grants?: number, ...events: unknown[][]) => void {
  const sent = s.at;
  tick();
  return (sure, grants = s.claimsOn(server).filter((it) => it.isRenewed).length, ...events) => {
    const numbered = events.map((event, i) => [server.seen + 1 + i, ...event]);
    server.swept = 0;
    s.polled(server, sent, ["sure-ms", sure, "grants", grants, "events", numbered]);
    tick();
  };
}

export const poll = (...events: unknown[][]): void => polling()(10 * S, undefined, ...events);

/** Sends what is due; gives each command its reply, the last one to the rest. */
export function sendDue(...replies: unknown[]): string[] {
  const due = s.due(server);
  tick();
  due.forEach(({ apply }, i) => { if (replies.length) apply(replies[Math.min(i, replies.length - 1)]); });
  return due.map(({ words }) => words.join(" "));
}

export const sure = (claim: Claim): number => Math.round(claim.sure / 100) / 10;
export const remaining = (claim: Claim): number => Math.max(0, claim.sure - s.at);
export const reason = ({ failure }: Claim): string => (failure as LockLost).reason;

export const called = (claim: Claim, reply: unknown, more: Partial<Call> = {}): Call =>
  Object.assign(s.beginCall(claim), { reply, ...more });
export const about = (claim: Claim, reply: unknown, sent = s.at): void => s.confirmed(called(claim, reply, { sent }));
export const left = (claim: Claim, reply: unknown, sent = s.at): void => s.confirmed(called(claim, reply, { sent }), true);
export const released = (claim: Claim, reply: unknown, wasOpen = false): void => s.released(called(claim, reply, { wasOpen }));
