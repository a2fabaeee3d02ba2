/** Owners, and waits until they are granted. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import {
  LockBusy, LockDeadlock, type LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable,
} from "../../src/errors.ts";
import type { TaskOwner } from "../../src/state/claim.ts";
import { Fault } from "../../src/state/fault.ts";
import {
  NO_REPLY, S, about, answer, changed, claimOf, ended, grant, granted, inLine, lost, poll, polling, released, reopen, s,
  sendDue, sends, server, sure, taken, tick, underWay,
} from "./support.ts";

test("an owner is not used while a call in its name is unanswered †", () => {
  const task: TaskOwner = { name: "o", held: new Map(), calls: 0 };
  const claim = taken("k", 50, { task });
  const call = s.beginCall(claim);
  s.release(claim);
  assert.equal(s.usableOwner(task), "");
  task.name = "o";
  s.released(Object.assign(call, { reply: 0 }));
  assert.equal(s.usableOwner(task), "o");
});

const renouncing: Record<string, (task: TaskOwner) => void> = {
  "no reply"(task) {
    assert.throws(() => about(taken("k", 50, { task }), NO_REPLY), LockUnavailable);
  },
  loss(task) {
    taken("k", 50, { task });
    poll(lost("k", 50));
  },
  "gave up"(task) {
    const claim = inLine("k", { task });
    assert(s.giveUp(claim));
    sendDue(0);
  },
  unfinished(task) {
    const claim = taken("k", 50, { task });
    s.release(claim);
    assert.throws(() => released(claim, NO_REPLY), LockUnavailable);
    task.name = "o";
  },
};
for (const [what, happens] of Object.entries(renouncing)) {
  test(`a task continues with a fresh owner: ${what} †`, () => {
    const task: TaskOwner = { name: "o", held: new Map(), calls: 0 };
    happens(task);
    assert.equal(s.usableOwner(task), "");
  });
}

test("an owner waits for a lock once", () => {
  inLine();
  assert.throws(() => claimOf("k"), LockMisuse);
});

test("the commands of an acquire", () => {
  const claim = claimOf("k");
  assert.equal(claim.acquireCommand(7, 102 * S).join(" "), "LOCK.ACQUIRE k o PX 10000 SESSION 7 HOLDS 1 QUEUE 3000");
  assert.equal(claim.acquireCommand(7, 105 * S).at(-1), 1); // 0 means no limit
  assert.equal(claimOf("ever", { wait: Infinity }).acquireCommand(7, s.at).at(-1), 0);
  assert.equal(claimOf("now", { wait: 0 }).acquireCommand(7, s.at).at(-2), "HOLDS");
  const fixed = claimOf("fixed", { isFixed: true, lease: 5 });
  assert.equal(fixed.acquireCommand(7, s.at)[4], 1000); // at least what the server renews
  const adopted = claimOf("adopted", { adopted: { owner: "o", token: 40 } });
  assert.equal(adopted.acquireCommand(7, s.at).join(" "), "LOCK.RENEW adopted o PX 10000 SESSION 7 TOKEN 40");
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

test("a loss counts until the calls of its time have been answered", () => {
  const claim = underWay();
  poll(lost("k", 50));
  answer(claim, NO_REPLY);
  sends(claim);
  answer(claim, grant(50)); // of a call that was sent after the loss
  assert.equal(claim.phase, "held");
});

test("a place in an earlier session is no place", () => {
  const claim = underWay();
  reopen();
  answer(claim, 3);
  assert.equal(claim.phase, "asked");
  sends(claim);
});

test("NOSESSION waits for the next session", () => {
  const claim = underWay();
  answer(claim, Fault.reply("NOSESSION x"));
  assert.equal(server.session, 0);
  assert.equal(typeof s.step(claim), "number");
  changed.length = 0;
  s.opened(server, 8);
  assert.deepEqual(changed, [claim]);
  sends(claim);
});

test("a server that refuses a session ends waits", () => {
  server.session = 0;
  const claim = claimOf("k");
  s.failed(server, s.at, Fault.reply("NOPERM no right"));
  assert.deepEqual(changed, [claim]);
  assert.throws(() => s.step(claim), LockRefused);
});

test("a reply that ends a wait", () => {
  for (const [reply, kind] of [[null, LockBusy], [Fault.reply("OOM x"), LockRefused]] as const) {
    const claim = underWay();
    answer(claim, reply);
    assert.throws(() => s.step(claim), (error) => error instanceof kind && error.message.startsWith("k: server: "));
    assert(!s.giveUp(claim));
    assert(s.isIdle(server));
  }
});

test("an event that ends a wait", () => {
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
  assert.deepEqual(sendDue(0), ["LOCK.RELEASE k o ALL"]);
  assert.deepEqual(sendDue(), []);
  answer(claim, 3); // a place: the cancel came before
  assert.deepEqual(sendDue(Fault.reply("NOTHELD x")), ["LOCK.RELEASE k o ALL"]);
  answer(claim, grant(60));
  assert.deepEqual(sendDue(), ["LOCK.RELEASE k o ALL TOKEN 60"]);
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

test("error replies mean what clients/protocol/errors.json says", () => {
  const kinds: Record<string, typeof LockError> = { busy: LockBusy, deadlock: LockDeadlock, lost: LockLost as typeof LockError,
    misuse: LockMisuse, "not-alone": LockNotAlone, passing: LockUnavailable, refused: LockRefused };
  const file = path.resolve(import.meta.dirname, "../../../../protocol/errors.json");
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
