/** The loop: what it applies of a POLL, what it sends before one, and where grants and waits go when a session or a node ends. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { LockRefused, LockUnavailable } from "../../src/errors.ts";
import { type Claim, SessionState } from "../../src/state/claim.ts";
import { Fault } from "../../src/state/fault.ts";
import {
  GONE, NO_REPLY, S, called, claimOf, grant, inLine, lost, poll, polling, reason, released, remaining, reopen, s, sendDue, sends, server,
  sought, start, sure, taken,
} from "./support.ts";

test("events are applied once", () => {
  const claim = taken();
  s.polled(server, s.at, { "sure-ms": 20 * S, grants: 1, events: [[1, ...lost("k", 40)]] });
  s.polled(server, s.at, new Map<string, unknown>([["sure-ms", 30 * S], ["grants", 1],
    ["events", [[1, ...lost("k", 50)], [2, ...lost("x", 1)]]]]));
  assert.equal(claim.phase, "held");
  assert.equal(server.seen, 2);
  assert.equal(sure(claim), 120); // the grants are gone through once for both
});

test("strays are released †", () => {
  taken("known");
  const other = claimOf("called");
  s.beginCall(other);
  s.giveUp(other);
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
  for (const [at, grants] of [[100, 1], [105, 0], [111, 1]] as const) {
    s.at = at * S;
    polling()(-1, grants);
  }
  assert.deepEqual(sendDue(), []);
});

// Another session.

test("waits are queued again in their order", () => {
  const waits = ["c", "a", "b"].map((key) => inLine(key, { wait: 60 * S }));
  const over = inLine("over");
  s.at = 105.5 * S;
  reopen();
  assert.deepEqual(sendDue(0).map((words) => words.split(" ")[1]), ["c", "a", "b"]);
  assert(waits.every(({ session }) => session === 8));
  s.at = 107 * S;
  assert.throws(() => s.step(over), LockUnavailable);
});

test("a POLL counts for the grants of its session †", () => {
  const claim = taken();
  reopen();
  s.at = 105 * S;
  polling()(-1, 0);
  assert.equal(sure(claim), 110);
  assert.deepEqual(sendDue(grant(50)), ["LOCK.RENEW k o SESSION 8 TOKEN 50"]);
  assert.equal(sure(claim), 115);
  s.at = 106 * S;
  polling()(10 * S);
  assert.equal(sure(claim), 116);
});

test("grants move to a new session", () => {
  const held = [grant(50), NO_REPLY, Fault.reply("NOPERM x")];
  for (const reply of [...held, ...GONE.map((text) => Fault.reply(text))]) {
    start();
    const claim = taken();
    reopen();
    sendDue(reply);
    assert.equal(claim.phase, held.includes(reply) ? "held" : "lost");
    assert.equal(sendDue().length > 0, claim.phase === "held" && claim.session === 7);
  }
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

// Clusters.

test("a grant that moved to another node", () => {
  start(true);
  const node = new SessionState("node");
  s.opened(node, 9);
  const claim = taken();
  poll(lost("k", 50));
  assert.deepEqual([claim.doubt, claim.phase, remaining(claim)], ["deleted", "held", 0]);
  assert.deepEqual(sought, [claim]);
  s.moved(called(claim, grant(50), { server: node, session: 9, sent: 100.5 * S }));
  assert.equal(claim.server, node);
  assert(remaining(claim) > 10 * S);
  const other = taken("other", 60);
  poll(lost("other", 60));
  s.moved(called(other, Fault.reply("NOTHELD x"), { server: node, session: 9 }));
  assert.equal(reason(other), "deleted");
});

test("a search decides about a grant that may have moved, whatever call is under way", () => {
  start(true);
  const node = new SessionState("node");
  s.opened(node, 9);
  const search = (claim: Claim, reply: unknown): void => s.moved(called(claim, reply, { server: node, session: 9, sent: s.at }));
  const checked = taken("checked");
  const check = s.beginCall(checked);
  poll(lost("checked", 50));
  poll(lost("checked", 50)); // in doubt already
  search(checked, grant(50));
  assert.deepEqual([checked.phase, checked.server], ["held", node]);
  poll(lost("checked", 50)); // from the node that it has left
  s.confirmed(Object.assign(check, { reply: "OK" }));
  assert.equal(checked.phase, "held");

  const extended = taken("extended");
  const extension = s.beginCall(extended);
  s.renew(extended, 20 * S, false);
  poll(lost("extended", 50));
  s.confirmed(Object.assign(extension, { reply: grant(50, 20 * S) }));
  assert.equal(extended.phase, "held");
  search(extended, grant(50, 20 * S));
  assert.deepEqual([extended.phase, extended.server], ["held", node]);

  const gone = taken("gone");
  s.beginCall(gone);
  poll(lost("gone", 50));
  search(gone, Fault.reply("NOTHELD x"));
  assert.equal(reason(gone), "deleted");
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
  assert(due?.release); // what the client then sends there
  due.apply(Fault.reply("MOVED 1 x:1"));
  assert.equal(sendDue().length, 1); // until that is answered
  s.finished(due.release, 0);
  assert.deepEqual(sendDue(), []);
});
