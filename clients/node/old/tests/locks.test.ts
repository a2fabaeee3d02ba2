/** What a lock promises while nothing fails. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type Grant, LockBusy, LockLost, LockMisuse } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, Pending, newLocks, toldLocks, took } from "./support.ts";

test("a grant is kept by the server, and released", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const grant = await locks.lock(KEY).acquire();
  assert(grant.held && grant.remaining > 9000 && grant.remaining <= 10_000);
  assert.match(grant.owner, new RegExp(`^test:[^:]+:${process.pid}:[0-9a-f-]{36}$`));
  const [holder] = await server.holders(KEY);
  assert.equal(holder?.["owner"], grant.owner);
  assert.equal(holder?.["token"], grant.token);
  assert.equal(holder?.["lease-ms"], 10_000);
  assert.equal(holder?.["keep-ms"], 30_000);
  assert((await server.named("lock-keeper"))[0]?.includes(`id=${holder?.["kept-by"]} `));
  await assert.rejects(locks.lock(KEY).acquire(), LockBusy);
  assert.equal(await locks.lock(KEY).tryAcquire(), undefined);
  await grant.check();
  await grant.release();
  assert(!grant.held);
  assert.equal(grant.remaining, 0);
  await assert.rejects(grant.release(), LockMisuse);
  await assert.rejects(grant.check(), LockMisuse);
  assert.equal(await server.info(KEY), undefined);
  assert.deepEqual(told.map(({ type }) => type), ["acquired", "busy", "busy", "released"]);
});

test("a kept grant outlives many leases", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.lock(KEY, { lease: 1000, keep: 1500 }).acquire();
  const renewals = await server.calls("lock.renew");
  await pause(3000);
  await grant.check();
  assert.equal((await server.info(KEY))?.["token"], grant.token);
  assert.equal(await server.calls("lock.renew"), renewals); // the server's own
  await grant.release();
});

test("a wait is one call on a connection of its own, reused, and outlasts the client's time-outs", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const waiting = newLocks(server, { redis: { commandTimeout: 300, socketTimeout: 300 } });
  const first = await locks.lock(KEY).acquire();
  const other = Pending.of(waiting.lock(KEY, { wait: 9000 }));
  await server.waitForWaiters(KEY, 1);
  const [waiter] = await server.waiters(KEY);
  assert(waiter && waiter["left-ms"] > 8000 && waiter["left-ms"] <= 9000);
  assert((await server.named("lock-wait"))[0]?.includes(`id=${waiter["client-id"]} `));
  await pause(1500);
  assert.equal((await server.waiters(KEY))[0]?.["client-id"], waiter["client-id"]);
  await first.release();
  const second = await other.granted();
  assert(second.remaining > 5000 && second.remaining <= 8500); // counted from the sending of the wait
  assert.equal(await server.calls("lock.acquire"), 3); // one attempt each, and one wait
  const accepted = await server.accepted();
  const third = Pending.of(waiting.lock(KEY, { wait: Infinity }));
  await server.waitForWaiters(KEY, 1);
  assert.equal((await server.waiters(KEY))[0]?.["client-id"], waiter["client-id"]);
  assert.equal((await server.waiters(KEY))[0]?.["left-ms"], -1);
  await second.release();
  await (await third.granted()).release();
  assert.equal(await server.accepted(), accepted);
  assert.equal(await server.info(KEY), undefined);
});

test("waits above 24.8 days are one wait", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const first = await locks.lock(KEY).acquire();
  const calls = await server.calls("lock.acquire");
  const other = Pending.of(locks.lock(KEY, { wait: 2 ** 31 + 60_000 }));
  await server.waitForWaiters(KEY, 1);
  assert((await server.waiters(KEY))[0]?.["left-ms"] > 2 ** 31);
  await pause(300);
  assert.equal(other.error, undefined);
  assert.equal(await server.calls("lock.acquire"), calls + 2);
  await first.release();
  await (await other.granted()).release();
});

test("a lease above 24.8 days is held for as long", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.lock(KEY, { lease: 2 ** 32, fixed: true }).acquire();
  await pause(100);
  assert(grant.held && grant.remaining > 2 ** 31);
  await grant.release();
});

test("a client without an offline queue waits in line, too", async () => {
  const server = await startServer();
  const locks = newLocks(server, { redis: { enableOfflineQueue: false, enableAutoPipelining: true } });
  const first = await locks.lock(KEY).acquire();
  const calls = await server.calls("lock.acquire");
  const other = Pending.of(locks.lock(KEY, { wait: 20_000 }));
  await server.waitForWaiters(KEY, 1);
  await pause(500);
  assert.equal(await server.calls("lock.acquire"), calls + 2);
  await first.release();
  await (await other.granted()).release();
});

test("a wait that is over or aborted leaves the line", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const first = await locks.lock(KEY).acquire();
  const abort = new AbortController();
  const aborted = Pending.of(locks.lock(KEY, { wait: 60_000 }), abort.signal);
  await server.waitForWaiters(KEY, 1);
  const short = await took(() => assert.rejects(locks.lock(KEY, { wait: 300 }).acquire(), LockBusy));
  assert(short >= 300 && short < 1300, String(short));
  const last = Pending.of(locks.lock(KEY, { wait: 60_000 }));
  await server.waitForWaiters(KEY, 2);
  const reason = new Error("cancelled");
  abort.abort(reason);
  await assert.rejects(aborted.over, reason);
  assert.equal((await server.waiters(KEY)).length, 1);
  await first.release();
  await (await last.granted()).release();
  assert.equal(await server.info(KEY), undefined);
});

test("a signal that is aborted already takes nothing", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  await assert.rejects(locks.lock(KEY).acquire({ signal: AbortSignal.abort() }), { name: "AbortError" });
  assert.equal(await server.calls("lock.acquire"), 0);
});

test("a grant that crosses the abort is released", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(server), waiting = newLocks(proxy);
  await proxy.inject("keep", "BLOCK");
  const first = await locks.lock(KEY).acquire();
  const abort = new AbortController();
  const other = Pending.of(waiting.lock(KEY, { wait: 60_000 }), abort.signal);
  await server.waitForWaiters(KEY, 1);
  await first.release();
  await eventually(() => server.info(KEY), "the grant");
  abort.abort();
  await assert.rejects(other.over, { name: "AbortError" });
  assert.equal(await server.info(KEY), undefined);
});

test("aborts at the moment of the grant leave nothing", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const rounds = process.env["LONG"] ? 500 : 60;
  let granted = 0;
  for (let round = 0; round < rounds; round += 1) {
    const first = await locks.lock(KEY).acquire();
    const abort = new AbortController();
    const other = locks.lock(KEY, { wait: 60_000 }).acquire({ signal: abort.signal });
    await server.waitForWaiters(KEY, 1);
    const released = first.release();
    setTimeout(() => abort.abort(), Math.random() * 2);
    const grant = await other.catch(() => undefined);
    await released;
    if (grant) {
      granted += 1;
      assert(grant.held);
      await grant.release();
    }
    assert.equal(await server.info(KEY), undefined);
    assert.equal((await server.waiters(KEY)).length, 0);
  }
  assert(granted < rounds, "no abort came in time");
});

test("close releases, calls off all waits and tells", async () => {
  const server = await startServer();
  const locks = newLocks(server), waiting = newLocks(server);
  const grant = await locks.lock(KEY).acquire();
  const fixed = await locks.lock("other", { fixed: true }).acquire();
  const others = [Pending.of(waiting.lock(KEY, { wait: 60_000 })), Pending.of(waiting.lock(KEY, { wait: Infinity }))];
  await server.waitForWaiters(KEY, 2);
  await waiting.close();
  assert.deepEqual(await server.waiters(KEY), []);
  for (const other of others) await assert.rejects(other.over, { name: "AbortError" });
  await locks.close();
  assert.equal(await server.info(KEY), undefined);
  assert.equal(await server.info("other"), undefined);
  assert(grant.signal.aborted && !grant.held && !fixed.held);
  await assert.rejects(grant.release(), LockLost);
  await assert.rejects(locks.lock(KEY).acquire(), LockMisuse);
  await locks.close();
  await eventually(async () => (await server.named("lock-keeper")).length + (await server.named("lock-wait")).length === 0, "no connection");
});

test("run gives the lock back, and never hides an error of the work", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  assert.equal(await locks.lock(KEY).run((grant) => grant.token > 2 ** 31 && "done"), "done");
  assert.equal(await server.info(KEY), undefined);
  const failed = new RangeError("the work has failed");
  await assert.rejects(locks.lock(KEY).run(() => { throw failed; }), failed);
  assert(!("cause" in failed));
  assert.equal(await server.info(KEY), undefined);
  const lose = async ({ signal }: Grant): Promise<void> => {
    await server.redis.del(KEY);
    await eventually(() => signal.aborted, "the loss");
  };
  await assert.rejects(locks.lock(KEY).run(async (grant) => {
    await lose(grant);
    throw failed;
  }), failed);
  assert.equal((failed.cause as Error).name, "LockLost");
  await assert.rejects(locks.lock(KEY).run(lose), LockLost);
  const deaf = locks.lock(KEY).run(async (grant) => {
    await lose(grant);
    await new Promise(() => {});
  });
  assert((await took(() => assert.rejects(deaf, LockLost))) < 2000);
});

test("await using gives the lock back, and never hides an error of the work", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  {
    await using grant = await locks.lock(KEY).acquire();
    assert.equal((await server.info(KEY))?.["token"], grant.token);
  }
  assert.equal(await server.info(KEY), undefined);
  const failed = new RangeError("the work has failed");
  const work = async (): Promise<void> => {
    await using grant = await locks.lock(KEY).acquire();
    await server.redis.del(KEY);
    await eventually(() => !grant.held, "the loss");
    throw failed;
  };
  await assert.rejects(work(), (error) => error === failed);
  assert.equal(told.at(-1)?.type, "unheard");
  {
    await using grant = await locks.lock(KEY).acquire();
    await grant.release(); // so that the work hears of a loss
  }
  {
    await using more = newLocks(server);
    await more.lock(KEY).acquire();
  }
  assert.equal(await server.info(KEY), undefined);
});

test("a loss is told once, at once, in every way", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const grant = await locks.lock(KEY, { lease: 60_000 }).acquire();
  const other = await locks.lock("other").acquire();
  let losses = 0;
  grant.onLost(() => { losses += 1; });
  grant.onLost(() => { losses += 100; })(); // taken away
  const { signal } = grant;
  const ms = await took(async () => {
    assert(await locks.forceUnlock(KEY));
    await eventually(() => signal.aborted, "the loss");
  });
  assert(ms < 1000, String(ms));
  assert(signal.reason instanceof LockLost && signal.reason.key === KEY && signal.reason.message.includes("NOTHELD"));
  assert.equal(losses, 1);
  assert(!grant.held && grant.remaining === 0);
  await assert.rejects(grant.check(), LockLost);
  await assert.rejects(grant.release(), LockLost);
  grant.onLost(() => { losses += 1; });
  await other.check(); // was never lost
  await other.release();
  assert.equal(told.filter(({ type }) => type === "lost").length, 1);
  assert(told.some(({ type }) => type === "keeper-lost") && told.some(({ type }) => type === "keeper-back"));
});

for (const answer of ["NOTHELD", "NOTOWNER", "FENCED", "WRONGTYPE"]) {
  test(`a lock that is lost by ${answer} is told within a second`, async () => {
    const server = await startServer();
    const locks = newLocks(server);
    const grant = await locks.lock(KEY, { lease: 60_000 }).acquire();
    const change = server.redis.multi().del(KEY);
    if (answer === "WRONGTYPE") change.set(KEY, "x");
    else if (answer !== "NOTHELD") change.call("LOCK.ACQUIRE", KEY, answer === "FENCED" ? grant.owner : "another");
    const stopped = pause(60_000, undefined, { signal: grant.signal });
    await change.exec();
    const ms = await took(() => stopped);
    assert(ms < 1000, String(ms));
    assert(String(grant.signal.reason).includes(answer), String(grant.signal.reason));
    assert.equal(await server.redis.exists(KEY), answer === "NOTHELD" ? 0 : 1); // another's is not touched
  });
}

test("a fixed lease is not renewed, and lost at its end", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.lock(KEY, { fixed: true, lease: 700 }).acquire();
  assert.equal((await server.holders(KEY))[0]?.["keep-ms"], 0);
  await grant.check();
  assert(grant.remaining <= 700);
  const ms = await took(() => pause(5000, undefined, { signal: grant.signal }));
  assert(ms > 400 && ms < 1200, String(ms));
  await assert.rejects(grant.release(), LockLost);
  await server.waitUntilFree(KEY, 1000);
  const other = await locks.lock(KEY, { fixed: true, lease: 30_000 }).acquire();
  await server.redis.del(KEY);
  await assert.rejects(other.check(), LockLost);
});

test("at most so long: kept until then, and told as lost", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.lock(KEY, { lease: 1000, atMost: 2500 }).acquire();
  const ms = await took(() => pause(9000, undefined, { signal: grant.signal }));
  assert(ms > 2300 && ms < 3000, String(ms));
  await server.waitUntilFree(KEY, 500);
  const short = await locks.lock(KEY, { lease: 10_000, atMost: 300 }).acquire();
  assert.equal((await server.holders(KEY))[0]?.["lease-ms"], 300);
  await eventually(() => !short.held, "its end");
});
