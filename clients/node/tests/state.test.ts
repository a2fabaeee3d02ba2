/**
 * The rules of docs/client-protocol.md, by plain calls without a server. † marks what its model cannot do without. The clock
 * starts at 100 s, the lease is 10 s, a reply takes at most 1 s, and session 7 is open.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { beforeEach, test } from "node:test";
import {
  LockBusy, LockDeadlock, type LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable,
} from "../src/errors.ts";
import { type Call, Claim, type ClaimTerms, SessionState } from "../src/state/claim.ts";
import { releaseOf } from "../src/state/claims.ts";
import { Fault } from "../src/state/fault.ts";
import { State } from "../src/state/state.ts";

const NO_REPLY = Fault.none("timeout", true);
const NOT_SENT = Fault.none("refused", false);
const GONE = ["NOTHELD x", "NOTOWNER x", "FENCED x", "WRONGTYPE x"];
const S = 1000;

const grant = (token: number, lease = 10 * S): unknown[] => [token, "o", 1, lease];
const granted = (key: string, token: number): unknown[] => ["granted", key, "o", token, 1, 10 * S, 1];
const lost = (key: string, token: number, reason = "deleted"): unknown[] => ["lost", key, "o", token, reason];
const ended = (key: string, why: string): unknown[] => ["ended", key, "o", why];

let s: State;
let server: SessionState;

function start(isCluster = false): void {
  s = new State(10 * S, S, isCluster);
  s.at = 100 * S;
  server = new SessionState("server");
  s.opened(server, 7);
}

beforeEach(() => start());

/** Those that have changed. */
let changed: Claim[] = [];
/** Those to be asked for where their keys are now. */
const sought: Claim[] = [];

class TestClaim extends Claim {
  override changed(): void { changed.push(this); }
  override seek(): void { sought.push(this); }
}

interface Words extends Partial<ClaimTerms> {
  readonly owner?: string;
}

/** Later, since each call of the state has a time of its own. */
const tick = (): void => { s.at += 0.001; };

function claimOf(key: string, { owner = "o", ...terms }: Words = {}): Claim {
  const all = { mode: [], lease: 10 * S, isFixed: false, wait: 5 * S, ...terms };
  const claim = new TestClaim(key, owner, all, server, s.reply, s.at);
  s.ask(claim);
  return claim;
}

/** The last ACQUIRE of each claim. */
const asked = new Map<Claim, Call>();

/** The next step of the claim is an ACQUIRE. */
function sends(claim: Claim): void {
  const step = s.step(claim);
  assert(typeof step === "object");
  asked.set(claim, step);
}

/** A wait whose ACQUIRE is under way. */
function underWay(key = "k", words: Words = {}): Claim {
  const claim = claimOf(key, words);
  sends(claim);
  return claim;
}

const answer = (claim: Claim, reply: unknown, sent = s.at): void => {
  const call = asked.get(claim);
  assert(call);
  s.answered(Object.assign(call, { reply, sent }));
};

function inLine(key = "k", words: Words = {}): Claim {
  const claim = underWay(key, words);
  answer(claim, 0);
  assert.equal(claim.phase, "in line");
  return claim;
}

/** A grant that the user has, sure for 10 s. */
function taken(key = "k", token = 50, words: Words = {}): Claim {
  const claim = underWay(key, words);
  answer(claim, grant(token));
  assert.equal(s.step(claim), "done");
  tick();
  return claim;
}

/** Sends a POLL. The result applies its reply. */
function polling(): (sure: number, grants?: number, ...events: unknown[][]) => void {
  const sent = s.at;
  tick();
  return (sure, grants = s.claimsOn(server).filter((it) => it.isRenewed).length, ...events) => {
    const numbered = events.map((event, i) => [server.seen + 1 + i, ...event]);
    s.polled(server, sent, ["sure-ms", sure, "grants", grants, "events", numbered]);
    tick();
  };
}

const poll = (...events: unknown[][]): void => polling()(10 * S, undefined, ...events);

/** Sends what is due; gives each command its reply, the last one to the rest. */
function sendDue(...replies: unknown[]): string[] {
  const due = s.due(server);
  tick();
  due.forEach(({ apply }, i) => { if (replies.length) apply(replies[Math.min(i, replies.length - 1)]); });
  return due.map(({ words }) => words.join(" "));
}

const sure = (claim: Claim): number => Math.round(claim.sure / 100) / 10;
const remaining = (claim: Claim): number => Math.max(0, claim.sure - s.at);
const reason = ({ failure }: Claim): string => (failure as LockLost).reason;
const called = (claim: Claim, reply: unknown, more: Partial<Call> = {}): Call => Object.assign(s.beginCall(claim), { reply, ...more });
const about = (claim: Claim, reply: unknown, sent = s.at): void => s.confirmed(called(claim, reply, { sent }));
const left = (claim: Claim, reply: unknown, sent = s.at): void => s.left(called(claim, reply, { sent }));
const released = (claim: Claim, reply: unknown, wasOpen = false): void => s.released(called(claim, reply, { wasOpen }));
const canceled = (claim: Claim): void => s.finished(releaseOf(claim.name, 0), 0);

// Owners and tasks.

test("an owner is not used while a call in its name is unanswered †", () => {
  const task = { name: "o" };
  const claim = taken("k", 50, { task });
  const call = s.beginCall(claim);
  s.release(claim);
  assert.equal(s.usableOwner(task), "");
  task.name = "o";
  s.released(Object.assign(call, { reply: 0 }));
  assert.equal(s.usableOwner(task), "o");
});

for (const what of ["no reply", "loss", "gave up", "unfinished"]) {
  test(`a task continues with a fresh owner: ${what} †`, () => {
    const task = { name: "o" };
    if (what === "gave up") {
      const claim = inLine("k", { task });
      assert(s.giveUp(claim));
      canceled(claim);
    } else {
      const claim = taken("k", 50, { task });
      if (what === "loss") poll(lost("k", 50));
      else if (what === "no reply") assert.throws(() => about(claim, NO_REPLY), LockUnavailable);
      else {
        s.release(claim);
        assert.throws(() => released(claim, NO_REPLY), LockUnavailable);
        task.name = "o";
      }
    }
    assert.equal(s.usableOwner(task), "");
  });
}

test("an owner waits for a lock once", () => {
  inLine();
  assert.throws(() => claimOf("k"), LockMisuse);
});

// Commands.

test("the commands of an acquire", () => {
  const claim = claimOf("k");
  assert.equal(claim.acquireCommand(7, 102 * S).join(" "), "LOCK.ACQUIRE k o PX 10000 SESSION 7 HOLDS 1 QUEUE 3000");
  assert.equal(claim.acquireCommand(7, 105 * S).at(-1), 1); // 0 means no limit
  assert.equal(claimOf("ever", { wait: Infinity }).acquireCommand(7, s.at).at(-1), 0);
  assert.equal(claimOf("now", { wait: 0 }).acquireCommand(7, s.at).at(-2), "HOLDS");
  const fixed = claimOf("fixed", { isFixed: true, lease: 5 });
  assert.equal(fixed.acquireCommand(7, s.at)[4], 1000); // at least what the server renews
  const adopted = claimOf("adopted", { adopted: 40 });
  assert.equal(adopted.acquireCommand(7, s.at).join(" "), "LOCK.RENEW adopted o PX 10000 SESSION 7 TOKEN 40");
});

test("only the user's release names the session †", () => {
  const claim = taken("held");
  assert.equal(s.release(claim).join(" "), "LOCK.RELEASE held o HOLDS 0 TOKEN 50 SESSION 7");
  const waiting = inLine("waiting");
  s.giveUp(waiting);
  poll(granted("stray", 60));
  assert.deepEqual(sendDue(), ["LOCK.RELEASE waiting o ALL", "LOCK.RELEASE stray o ALL TOKEN 60"]);
});

// What is known of a grant.

test("sure counts from the sending", () => {
  const claim = underWay();
  s.at = 103 * S;
  answer(claim, grant(50), 100.5 * S);
  assert.equal(sure(claim), 110.5);
  s.step(claim);
  tick();
  const reply = polling();
  s.at = 105 * S;
  reply(9 * S);
  assert.equal(sure(claim), 112); // the POLL was sent at 103
  polling()(-1);
  assert.equal(sure(claim), 115);
  polling()(1 * S);
  assert.equal(sure(claim), 115); // never earlier
});

test("a POLL counts for the grants of its session †", () => {
  const claim = taken();
  server.session = 0;
  s.opened(server, 8);
  s.at = 105 * S;
  polling()(-1, 0);
  assert.equal(sure(claim), 110);
  assert.deepEqual(sendDue(grant(50)), ["LOCK.RENEW k o SESSION 8 TOKEN 50"]);
  assert.equal(sure(claim), 115);
  s.at = 106 * S;
  polling()(10 * S);
  assert.equal(sure(claim), 116);
});

test("a POLL counts for the grants that were known when it was sent †", () => {
  const reply = polling();
  s.at = 101 * S;
  const claim = taken();
  s.at = 109 * S;
  reply(60 * S);
  assert.equal(sure(claim), 111);
  polling()(8 * S);
  assert.equal(sure(claim), 117);
});

test("an event grants with the sure of its reply", () => {
  const claim = inLine();
  const reply = polling();
  s.at = 102 * S;
  reply(9 * S, 1, granted("k", 60));
  assert.deepEqual([claim.phase, claim.token, sure(claim)], ["held", 60, 109]);
  assert.equal(s.step(claim), "done");
});

test("a grant with sure-ms 0 is polled for once more", () => {
  const claim = inLine();
  polling()(0, 1, granted("k", 60));
  assert.equal(typeof s.step(claim), "number");
  assert.equal(s.block(server), 100);
  polling()(5 * S);
  assert.equal(s.step(claim), "done");
});

test("a loss may come before the reply that names the grant †", () => {
  const claim = underWay();
  poll(lost("k", 50));
  answer(claim, grant(50));
  assert.equal(claim.phase, "asked");
  sends(claim);
});

test("a loss counts for the calls of its time", () => {
  const claim = underWay();
  const before = asked.get(claim);
  poll(lost("k", 50));
  sends(claim);
  answer(claim, grant(50)); // of a call that was sent after the loss
  assert.equal(claim.phase, "held");
  assert.deepEqual([...(before?.losses ?? [])], [[50, "deleted"]]);
});

test("a shorter lease counts at once, and no POLL until its reply", () => {
  const claim = taken();
  s.renew(claim, 2 * S, false);
  assert.equal(sure(claim), 102);
  polling()(9 * S);
  assert.equal(sure(claim), 102);
  assert.throws(() => about(claim, NO_REPLY), LockUnavailable);
  polling()(9 * S);
  assert.equal(sure(claim), 102); // unanswered, it ends by silence
  about(claim, grant(50, 2 * S), 100.5 * S);
  assert.equal(sure(claim), 102.5);
  tick();
  polling()(9 * S);
  assert.equal(sure(claim), 109);
});

test("silence is judged by a POLL that began after sure †", () => {
  const claim = taken();
  const reply = polling();
  s.at = 130 * S; // the program was suspended
  assert.equal(remaining(claim), 0);
  reply(5 * S);
  assert.equal(claim.phase, "held");
  assert.equal(remaining(claim), 0);
  assert(server.isUnsure);
  polling()(5 * S);
  assert(remaining(claim) > 4.9 * S);
  s.at = 140 * S;
  s.failed(server, 139 * S, NO_REPLY);
  assert.deepEqual([claim.phase, reason(claim)], ["lost", "silence"]);
  assert.deepEqual(sendDue(), ["LOCK.RELEASE k o ALL TOKEN 50"]);
});

test("a connection that is refused at once counts after a second of tries", () => {
  const claim = taken();
  for (const [at, phase] of [[110.5, "held"], [111.2, "held"], [111.6, "lost"]] as const) {
    s.at = at * S;
    s.failed(server, s.at, NOT_SENT);
    assert.equal(claim.phase, phase);
  }
});

test("a loss is reported once", () => {
  const claim = taken();
  changed = [];
  poll(lost("k", 50));
  poll(lost("k", 50));
  assert.deepEqual(changed, [claim]);
  assert.throws(() => s.release(claim), (error) => error instanceof LockLost && error.reason === "deleted");
  const other = taken("other", 60);
  poll(["taken", "other", "o", 60, 9]);
  assert.equal(reason(other), "taken");
  assert.deepEqual(sendDue(), []); // nothing is sent about it any more
});

test("events are applied once", () => {
  const claim = taken();
  s.polled(server, s.at, { "sure-ms": 9000, grants: 1, events: [[1, ...lost("k", 40)]] });
  s.polled(server, s.at, new Map<string, unknown>([["sure-ms", 9000], ["grants", 1],
    ["events", [[1, ...lost("k", 50)], [2, ...lost("x", 1)]]]]));
  assert.equal(claim.phase, "held");
  assert.equal(server.seen, 2);
});

test("strays are released †", () => {
  taken("known");
  const called = claimOf("called");
  s.beginCall(called);
  s.giveUp(called);
  polling()(10 * S, 3);
  s.at = 109 * S;
  polling()(10 * S, 3);
  assert.deepEqual(sendDue(), []);
  s.at = 111 * S; // a whole lease later
  polling()(10 * S, 3);
  const rows = ["known", "called", "stray"].map((key) => ["key", key, "owner", "o", "token", 50]);
  assert.deepEqual(sendDue(rows), ["LOCK.SESSION GRANTS 7"]);
  assert.deepEqual(sendDue(), ["LOCK.RELEASE stray o ALL TOKEN 50"]);
});

test("no stray is looked for after a reply whose number is right", () => {
  polling()(-1, 1);
  s.at = 105 * S;
  polling()(-1, 0);
  s.at = 111 * S;
  polling()(-1, 1);
  assert.deepEqual(sendDue(), []);
});

// Waits.

test("waits are queued again in their order", () => {
  const waits = ["c", "a", "b"].map((key) => inLine(key, { wait: 60 * S }));
  const over = inLine("over");
  s.at = 105.5 * S;
  server.session = 0;
  s.opened(server, 8);
  assert.deepEqual(sendDue(0).map((words) => words.split(" ")[1]), ["c", "a", "b"]);
  assert(waits.every(({ session }) => session === 8));
  s.at = 107 * S;
  assert.throws(() => s.step(over), LockUnavailable);
});

test("a place in an earlier session is no place", () => {
  const claim = underWay();
  server.session = 0;
  s.opened(server, 8);
  answer(claim, 3);
  assert.equal(claim.phase, "asked");
  sends(claim);
});

test("NOSESSION waits for the next session", () => {
  const claim = underWay();
  answer(claim, Fault.reply("NOSESSION x"));
  assert.equal(server.session, 0);
  assert.equal(typeof s.step(claim), "number");
  changed = [];
  s.opened(server, 8);
  assert.deepEqual(changed, [claim]);
  sends(claim);
});

const endings: [unknown, typeof LockError][] = [
  [null, LockBusy], [Fault.reply("DEADLOCK x"), LockDeadlock], [Fault.reply("NOTALONE x"), LockNotAlone],
  [Fault.reply("OOM x"), LockRefused], [Fault.reply("WRONGTYPE x"), LockMisuse], [Fault.reply("ERR syntax"), LockMisuse],
  [Fault.reply("ERR unknown command 'LOCK.ACQUIRE'"), LockRefused],
];
for (const [reply, kind] of endings) {
  test(`a reply that ends a wait: ${reply instanceof Fault ? reply.text : "nil"}`, () => {
    const claim = underWay();
    answer(claim, reply);
    assert.throws(() => s.step(claim), (error) => error instanceof kind && error.message.startsWith("k: "));
    assert(!s.giveUp(claim));
    assert(s.isIdle(server));
  });
}

test("ends of waits", () => {
  for (const [why, kind] of [["timeout", LockBusy], ["cancelled", LockBusy], ["NOPERM x", LockRefused]] as const) {
    const claim = inLine(why);
    poll(ended(why, why));
    assert.throws(() => s.step(claim), kind);
    poll(ended(why, why)); // over: nothing
  }
  const moved = inLine("moved");
  poll(ended("moved", "MOVED 1 x:1"));
  sends(moved);
});

test("the end of a place may come before its reply", () => {
  const claim = underWay();
  const sent = s.at;
  tick();
  poll(ended("k", "MOVED 1 x:1"));
  answer(claim, 0, sent);
  sends(claim);
  answer(claim, 0);
  assert.equal(claim.phase, "in line");
});

test("a wait that is over", () => {
  const claim = underWay();
  assert(s.giveUp(claim));
  assert.deepEqual(sendDue(), ["LOCK.RELEASE k o ALL"]);
  canceled(claim);
  assert.deepEqual(sendDue(), []);
  answer(claim, 3); // a place: the cancel came before
  assert.deepEqual(sendDue(Fault.reply("NOTHELD x")), ["LOCK.RELEASE k o ALL"]);
  answer(claim, grant(60));
  assert.deepEqual(sendDue(), ["LOCK.RELEASE k o ALL TOKEN 60"]);
});

test("a late grant is left to the call under way", () => {
  const claim = taken();
  s.beginCall(claim);
  s.release(claim);
  poll(granted("k", 50));
  assert.deepEqual(sendDue(), []);
});

test("of two tokens the higher one counts until the user has the grant", () => {
  const claim = underWay();
  answer(claim, grant(60));
  poll(granted("k", 50));
  poll(granted("k", 70));
  assert.equal(s.step(claim), "done");
  assert.equal(claim.token, 70);
  poll(granted("k", 80));
  assert.equal(claim.token, 70);
  assert.deepEqual(sendDue(), ["LOCK.RELEASE k o ALL TOKEN 80"]);
});

test("time limits", () => {
  const limits = [0, 200, 60 * S].map((wait) => claimOf(String(wait), { wait }));
  assert.deepEqual(limits.map(({ limit }) => limit), [500, 500, 1000]);
  assert.deepEqual(limits.map(({ askedEnd }) => askedEnd / S), [101, 101, 160]);
  assert.deepEqual(limits.map(({ last }) => last / S), [101, 101.2, 161]);
  const [now] = limits;
  const waiting = inLine("d", { wait: 2 * S });
  s.at = 101 * S;
  assert.throws(() => now && s.step(now), (error) => error instanceof LockUnavailable && /server/.test(error.message));
  s.at = 102.9 * S;
  assert(Number(s.step(waiting)) <= 110);
  s.at = 103 * S; // the server should have ended it
  assert.throws(() => s.step(waiting), LockBusy);
});

test("a server that refuses a session ends waits", () => {
  server.session = 0;
  const claim = claimOf("k");
  changed = [];
  s.failed(server, s.at, Fault.reply("NOPERM no right"));
  assert.deepEqual(changed, [claim]);
  assert.throws(() => s.step(claim), LockRefused);
});

// Releases.

test("a release that finds no grant", () => {
  for (const reply of GONE) {
    for (const [wasOpen, isReported] of [[false, false], [true, false], [true, true]] as const) {
      const claim = taken();
      const call = s.beginCall(claim);
      s.release(claim);
      if (isReported) poll(lost("k", 50));
      const release = (): void => s.released(Object.assign(call, { reply: Fault.reply(reply), wasOpen }));
      if (wasOpen && !isReported) release();
      else assert.throws(release, LockLost);
    }
  }
});

test("an unanswered release of the last hold is repeated by the loop", () => {
  const claim = taken();
  about(claim, grant(50));
  claim.holds = 2;
  assert.equal(s.release(claim)[4], 1);
  assert.equal(claim.phase, "held");
  assert.throws(() => released(claim, NO_REPLY), LockUnavailable);
  assert.deepEqual(sendDue(), []); // a re-entry may have come between
  s.release(claim);
  assert.throws(() => released(claim, NO_REPLY), LockUnavailable);
  assert.throws(() => s.release(claim), LockMisuse);
  assert.deepEqual(sendDue(NO_REPLY), ["LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7"]);
  assert.equal(sendDue(Fault.reply("NOTHELD x")).length, 1);
  assert.deepEqual(sendDue(), []);
});

test("after a refused release the session is left", () => {
  const other = taken("other", 40);
  const claim = taken();
  s.release(claim);
  assert.throws(() => released(claim, Fault.reply("NOPERM x")), LockRefused);
  s.leaveSession(server);
  assert.equal(server.session, 0);
  s.opened(server, 8);
  assert.deepEqual(sendDue(grant(40)), ["LOCK.RENEW other o SESSION 8 TOKEN 40"]);
  assert.equal(other.session, 8);
  s.at = 102.5 * S;
  assert.deepEqual(sendDue(1), ["LOCK.SESSION CLOSE 7"]);
  assert.deepEqual(sendDue(), []);
});

const moves: [unknown, string][] = [[grant(50), "held"], [NO_REPLY, "held"], [Fault.reply("NOPERM x"), "held"],
  ...GONE.map((text): [unknown, string] => [Fault.reply(text), "lost"])];
test("grants move to a new session", () => {
  for (const [reply, phase] of moves) {
    start();
    const claim = taken();
    server.session = 0;
    s.opened(server, 8);
    sendDue(reply);
    assert.equal(claim.phase, phase);
    assert.equal(sendDue().length > 0, phase === "held" && claim.session === 7);
  }
});

test("close ends waits and grants", () => {
  const claim = taken();
  const waiting = inLine("waiting");
  assert.deepEqual(s.close(), [claim]);
  for (const call of [() => s.step(waiting), () => claimOf("new"), () => s.requireHeld(claim)]) {
    assert.throws(call, (error) => error instanceof LockMisuse && /closed/.test(error.message));
  }
});

// Leases that end.

test("a fixed lease leaves the session, and ends by time", () => {
  const claim = inLine("k", { isFixed: true, lease: 3 * S });
  poll(granted("k", 60));
  assert.equal(s.step(claim), "done");
  assert(!claim.isHandedOver);
  assert.equal(s.renew(claim, 3 * S, true).join(" "), "LOCK.RENEW k o PX 3000 SESSION 0 TOKEN 60");
  poll(["taken", "k", "o", 60, 0]); // by this client
  left(claim, grant(60, 3 * S), 101 * S);
  polling()(60 * S, 0);
  assert.deepEqual([claim.session, claim.isHandedOver, sure(claim)], [0, true, 104]);
  assert.equal(s.endByTime(claim, Infinity), 104 * S - s.at);
  s.at = 104 * S;
  assert.equal(String(s.endByTime(claim, Infinity)), "LOCK.RELEASE,k,o,HOLDS,0,TOKEN,60");
  assert.equal(reason(claim), "expired");
});

/** A grant with the token 50 that the user has detached. */
function detached(): void {
  const claim = taken();
  s.renew(claim, 3 * S, true);
  left(claim, grant(50, 3 * S));
  s.letGo(claim);
}

test("events of a grant that was detached", () => {
  detached();
  poll(granted("k", 50));
  assert.deepEqual(sendDue(), []); // it is this client's own doing: nothing is released
  poll(["taken", "k", "o", 50, 0]);
  assert.deepEqual(server.leaves, []);
});

test("a grant that is adopted before its events", () => {
  detached();
  detached();
  const claim = taken();
  poll(granted("k", 50), ["taken", "k", "o", 50, 0]);
  poll(["taken", "k", "o", 50, 0]);
  assert.equal(claim.phase, "held");
  poll(["taken", "k", "o", 50, 0]); // by another program
  assert.equal(reason(claim), "taken");
});

test("nothing is kept of a grant that has left", () => {
  const claim = taken();
  s.renew(claim, 3 * S, true);
  assert.throws(() => left(claim, Fault.reply("NOPERM x")), LockRefused);
  assert.deepEqual(server.leaves, []);
  for (const lease of [2 * S, 3 * S]) { // the second time it is outside of sessions
    s.renew(claim, lease, true);
    left(claim, grant(50, lease));
  }
  assert.equal(server.leaves.length, 1);
  s.opened(server, 8);
  assert.deepEqual(server.leaves, []);
});

test("a maximum time", () => {
  const claim = taken();
  assert(Number(s.endByTime(claim, 104 * S)) > 3.9 * S);
  s.at = 104 * S;
  assert.equal((s.endByTime(claim, 104 * S) as unknown[]).join(" "), "LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7");
  assert.equal(claim.phase, "lost");
  assert.equal(sendDue().length, 1);
  s.finished(releaseOf(claim.name, 50), 0);
  assert.deepEqual(sendDue(), []);
});

test("the loss of a raised token may come before the reply that names it", () => {
  const claim = taken();
  const call = s.beginCall(claim);
  poll(lost("k", 60));
  assert.throws(() => s.confirmed(Object.assign(call, { reply: grant(60) })), LockLost);
});

// Clusters.

test("a grant that moved to another node", () => {
  start(true);
  const node = new SessionState("node");
  s.opened(node, 9);
  const claim = taken();
  poll(lost("k", 50));
  assert.equal(claim.doubt, "deleted");
  assert.deepEqual(sought, [claim]);
  assert.equal(claim.phase, "held");
  assert.equal(remaining(claim), 0);
  s.moved(called(claim, grant(50), { server: node, session: 9, sent: 100.5 * S }));
  assert.equal(claim.server, node);
  assert(remaining(claim) > 10 * S);
  const other = taken("other", 60);
  poll(lost("other", 60));
  s.moved(called(other, Fault.reply("NOTHELD x"), { server: node, session: 9 }));
  assert.equal(reason(other), "deleted");
});

test("a wait on a node that has lost its slot is asked again", () => {
  start(true);
  const claim = inLine();
  assert.deepEqual(s.claimsOn(server), [claim]);
  s.relocate(claim);
  sends(claim);
});

test("a release for a node that has lost its slot goes to another", () => {
  start(true);
  s.giveUp(inLine());
  const [due] = s.due(server);
  assert.equal(due?.release, releaseOf("k\0o", 0)); // what the client then sends there
  due.apply(Fault.reply("MOVED 1 x:1"));
  assert.equal(sendDue().length, 1); // until that is answered
  s.finished(due.release, 0);
  assert.deepEqual(sendDue(), []);
});

test("error replies mean what clients/protocol/errors.json says", () => {
  const kinds: Record<string, typeof LockError> = { busy: LockBusy, deadlock: LockDeadlock, lost: LockLost as typeof LockError,
    misuse: LockMisuse, "not-alone": LockNotAlone, passing: LockUnavailable, refused: LockRefused };
  const file = path.resolve(import.meta.dirname, "../../../protocol/errors.json");
  const { errors } = JSON.parse(readFileSync(file, "utf8")) as { errors: Record<string, string>[] };
  for (const { begins = "", acquire = "", move = "", release = "" } of errors) {
    const fault = Fault.reply(`${begins} of the server`.trim());
    const kind = kinds[acquire];
    assert(kind && fault.error("k", "server") instanceof kind, `${begins}: acquire`);
    assert.equal(fault.passing, acquire === "passing", `${begins}: passing`);
    assert.equal(fault.gone, release === "lost", `${begins}: release`);
    assert.equal(fault.gone, move === "lost", `${begins}: move`);
  }
});
