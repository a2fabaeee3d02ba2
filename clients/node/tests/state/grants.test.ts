/** Grants: what is known of them, their releases, and leases that end. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { LockLost, LockMisuse, LockRefused, LockUnavailable } from "../../src/errors.ts";
import { Fault } from "../../src/state/fault.ts";
import {
  GONE, NOT_SENT, NO_REPLY, S, about, answer, changed, claimOf, grant, granted, inLine, left, lost, poll, polling, reason, released,
  remaining, s, sendDue, server, sure, taken, tick, underWay,
} from "./support.ts";

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
  changed.length = 0;
  poll(lost("k", 50));
  poll(lost("k", 50));
  assert.deepEqual(changed, [claim]);
  assert.throws(() => s.release(claim), (error) => error instanceof LockLost && error.reason === "deleted");
  const other = taken("other", 60);
  poll(["taken", "other", "o", 60, 9]);
  assert.equal(reason(other), "taken");
  assert.deepEqual(sendDue(), []); // nothing is sent about it any more
});

test("the loss of a raised token may come before the reply that names it", () => {
  const claim = taken();
  const call = s.beginCall(claim);
  poll(lost("k", 60));
  assert.throws(() => s.confirmed(Object.assign(call, { reply: grant(60) })), LockLost);
});

// Releases.

test("only the user's release names the session †", () => {
  const claim = taken("held");
  assert.equal(s.release(claim).join(" "), "LOCK.RELEASE held o HOLDS 0 TOKEN 50 SESSION 7");
  const waiting = inLine("waiting");
  s.giveUp(waiting);
  poll(granted("stray", 60));
  assert.deepEqual(sendDue(), ["LOCK.RELEASE waiting o ALL", "LOCK.RELEASE stray o ALL TOKEN 60"]);
});

test("a late grant is left to the call under way", () => {
  const claim = taken();
  s.beginCall(claim);
  s.release(claim);
  poll(granted("k", 50));
  assert.deepEqual(sendDue(), []);
});

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
  s.endByTime(claim, Infinity);
  assert.deepEqual(sendDue(), ["LOCK.RELEASE k o HOLDS 0 TOKEN 60"]);
  assert.equal(reason(claim), "expired");
});

test("a maximum time", () => {
  const claim = taken();
  assert(Number(s.endByTime(claim, 104 * S)) > 3.9 * S);
  s.at = 104 * S;
  s.endByTime(claim, 104 * S);
  assert.equal(claim.phase, "lost");
  assert.deepEqual(sendDue(0), ["LOCK.RELEASE k o HOLDS 0 TOKEN 50 SESSION 7"]);
  assert.deepEqual(sendDue(), []);
});

/** A grant with the token 50 that the user has detached. */
function detached(): void {
  const claim = taken();
  s.renew(claim, 3 * S, true);
  left(claim, grant(50, 3 * S));
  s.end(claim, "released");
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
