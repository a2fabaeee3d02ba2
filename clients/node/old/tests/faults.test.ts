/** What a lock promises when servers, networks and processes fail. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockBusy, LockLost, LockRefused, LockUnavailable } from "../src/index.ts";
import { Place, type Server, ends, eventually, startProxy, startSentinels, startServer } from "./servers.ts";
import { KEY, Pending, newLocks, stall, toldLocks, took } from "./support.ts";

function holder(server: Server, lease: number): { child: ChildProcess; held: Promise<unknown> } {
  const file = path.join(import.meta.dirname, "holder.js");
  const child = spawn(process.execPath, [file, String(server.port), String(lease)], { stdio: ["ignore", "pipe", "inherit"] });
  ends.push(() => child.kill("SIGKILL"));
  assert(child.stdout);
  return { child, held: once(child.stdout, "data") };
}

test("calls whose replies are lost do not add up", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const task = locks.task();
  await proxy.inject("cut", "LOCK.ACQUIRE");
  const outer = await task.lock(KEY, { lease: 5000 }).acquire();
  assert.equal((await server.info(KEY))?.["holds"], 1);
  await proxy.inject("cut", "LOCK.ACQUIRE");
  const inner = await task.lock(KEY).acquire();
  assert.equal((await server.info(KEY))?.["holds"], 2);
  await proxy.inject("cut", "LOCK.RELEASE");
  await inner.release();
  assert.equal((await server.info(KEY))?.["holds"], 1);
  await outer.check();
  await proxy.inject("cut", "LOCK.RELEASE");
  await outer.release(); // without LockLost
  assert.equal(await server.info(KEY), undefined);
  assert.equal((await proxy.order("lost"))["pending"], 0);

  const first = await newLocks(server).lock(KEY).acquire();
  await proxy.inject("cut", "BLOCK");
  const other = Pending.of(locks.lock(KEY, { wait: 20_000 }));
  await server.waitForWaiters(KEY, 1);
  await first.release();
  const second = await other.granted();
  assert.equal((await server.info(KEY))?.["holds"], 1);
  await second.release();
  assert.equal(await server.info(KEY), undefined);
});

test("the lease is counted from the sending, and not by the wall clock", async (t) => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  await locks.lock("other").run(() => {});
  await proxy.inject({ delay: 500 }, "LOCK.ACQUIRE");
  const grant = await locks.lock(KEY, { lease: 60_000 }).acquire();
  assert(grant.remaining > 58_500 && grant.remaining <= 59_500, String(grant.remaining));
  t.mock.method(Date, "now", () => 0);
  assert(grant.remaining > 58_500, String(grant.remaining));
  await grant.release();
});

test("now or not at all fails within its second, whatever is down", async () => {
  const server = await startServer();
  const hung = await startServer();
  const proxy = await startProxy(server);
  const silent = newLocks(proxy), waiting = newLocks(hung);
  await silent.lock("other").run(() => {});
  await hung.order("pause");
  await proxy.order("silence");
  const closed = newLocks(new Place(1));
  const all = [silent, waiting, closed, newLocks(proxy), newLocks(hung)];
  await Promise.all(all.map(async (locks) => {
    const ms = await took(() => assert.rejects(locks.lock(KEY).acquire(), (error) =>
      error instanceof LockUnavailable && error.cause instanceof Error));
    assert(ms < 1500, String(ms));
  }));
  await hung.order("resume");
  await proxy.order("speak");
  await server.waitUntilFree(KEY, 3000);
  await hung.waitUntilFree(KEY, 3000);
});

test("the signal and close are obeyed while the server is unreachable", async () => {
  const hung = await startServer();
  const locks = [newLocks(hung), newLocks(hung), newLocks(new Place(1))];
  const other = await newLocks(hung).lock("other").acquire();
  assert(locks[1]);
  await locks[1].lock("third").acquire();
  await hung.order("pause");
  for (const it of locks) {
    const abort = new AbortController();
    const pending = Pending.of(it.lock(KEY, { wait: Infinity }), abort.signal);
    await pause(100);
    const ms = await took(async () => { abort.abort(); await assert.rejects(pending.over, { name: "AbortError" }); });
    assert(ms < 1300, `abort: ${ms}`);
    const waits = [Pending.of(it.lock(KEY, { wait: Infinity })), Pending.of(it.lock("more", { wait: 60_000 }))];
    await pause(50);
    const closing = await took(() => it.close());
    assert(closing < 2500, `close: ${closing}`);
    for (const wait of waits) await assert.rejects(wait.over, { name: "AbortError" });
  }
  const release = await took(() => assert.rejects(other.release(), LockUnavailable));
  assert(release < 2800, `release: ${release}`);
  await hung.order("resume");
});

test("an aborted wait in a hung server's line leaves it", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const first = await locks.lock(KEY).acquire();
  const abort = new AbortController();
  const other = Pending.of(locks.lock(KEY, { wait: Infinity }), abort.signal);
  await server.waitForWaiters(KEY, 1);
  await server.order("pause");
  const ms = await took(async () => { abort.abort(); await assert.rejects(other.over, { name: "AbortError" }); });
  assert(ms < 1500, String(ms));
  await server.order("resume");
  await server.waitForWaiters(KEY, 0, 5000);
  await first.check();
  await first.release();
});

test("a release that is not answered lets the lock come free within a lease", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const grant = await locks.lock(KEY, { lease: 2000 }).acquire();
  const other = await locks.lock("other", { lease: 20_000 }).acquire();
  await proxy.order("silence");
  const ms = await took(() => assert.rejects(grant.release(), LockUnavailable));
  assert(ms < 2800, String(ms));
  await proxy.order("speak");
  await server.waitUntilFree(KEY, 3000);
  await other.check();
  await other.release();
});

for (const word of ["PING", "LOCK.RENEW"]) {
  test(`a keeper that is cut at ${word} comes back, and nothing is lost`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const { locks, told } = toldLocks(proxy);
    const grants = await Promise.all(["a", "b", "c"].map((key) => locks.lock(key, { lease: 3000, keep: 1500 }).acquire()));
    if (word === "LOCK.RENEW") await proxy.inject("cut", "LOCK.RENEW");
    await server.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await eventually(() => told.some(({ type }) => type === "keeper-back"), "the keeper");
    for (const grant of grants) await grant.check();
    await pause(2000); // longer than the silence: they are kept again
    for (const grant of grants) await grant.release();
    assert(!told.some(({ type }) => type === "lost"));
  });
}

test("silence is a loss at the end of the lease", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const grant = await locks.lock(KEY, { lease: 1500 }).acquire();
  await grant.check();
  await proxy.order("silence");
  const ms = await took(() => pause(60_000, undefined, { signal: grant.signal }));
  assert(ms > 900 && ms < 2600, String(ms));
  await assert.rejects(grant.release(), LockLost);
});

test("a wait whose grant was swallowed lines up again when its server falls silent", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const { locks, told } = toldLocks(proxy);
  await locks.lock("other", { lease: 1500 }).acquire();
  const first = await newLocks(server).lock(KEY).acquire();
  await proxy.inject("keep", "BLOCK");
  const other = Pending.of(locks.lock(KEY, { wait: Infinity, lease: 60_000 }));
  await server.waitForWaiters(KEY, 1);
  await first.release();
  await eventually(() => server.info(KEY), "the grant");
  await server.order("pause");
  await eventually(() => told.some(({ type }) => type === "keeper-lost"), "the silence to be found");
  await server.order("resume");
  const grant = await other.granted();
  assert.equal((await server.info(KEY))?.["holds"], 1);
  await grant.release();
  assert.equal(await server.info(KEY), undefined);
});

test("a loop that stalls for longer than the lease loses nothing", async () => {
  const server = await startServer();
  const { locks, told } = toldLocks(server);
  const grant = await locks.lock(KEY, { lease: 1000 }).acquire();
  stall(2500);
  await grant.check();
  await pause(1500);
  await grant.release();
  assert(!told.some(({ type }) => type === "lost" || type === "keeper-lost"));
});

test("a server that stalls loses nothing, and one that forgets loses all", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grant = await locks.lock(KEY, { lease: 6000 }).acquire();
  await server.order("pause");
  await pause(2500);
  await server.order("resume");
  await grant.check();
  await server.order("kill");
  await server.order("restart");
  const ms = await took(() => pause(60_000, undefined, { signal: grant.signal }));
  assert(ms < 3000, String(ms));
  await (await locks.lock(KEY).acquire()).release();
});

test("a server that restarts with its data loses nothing", async () => {
  const server = await startServer({ appendonly: "yes", appendfsync: "always" });
  const locks = newLocks(server);
  const grant = await locks.lock(KEY, { lease: 20_000 }).acquire();
  const other = Pending.of(locks.lock(KEY, { wait: 30_000 }));
  await server.waitForWaiters(KEY, 1);
  await server.order("kill");
  await server.order("restart");
  await server.waitForWaiters(KEY, 1);
  await grant.check();
  await grant.release();
  await (await other.granted()).release();
});

test("a wrong password and no right are told at once", async () => {
  const server = await startServer({ requirepass: "right" }).catch(() => undefined);
  const open = await startServer();
  await open.redis.call("ACL", "SETUSER", "poor", "on", ">x", "~*", "+@connection", "+info");
  const refused = [newLocks(open, { redis: { username: "poor", password: "x" } }), newLocks(open, { redis: { username: "nobody", password: "y" } })];
  if (server) refused.push(newLocks(server), newLocks(server, { redis: { password: "wrong" } }));
  for (const locks of refused) {
    const ms = await took(() => assert.rejects(locks.lock(KEY, { wait: 20_000 }).acquire(), LockRefused));
    assert(ms < 900, String(ms));
  }
});

test("no module is told at once", async () => {
  const { sentinel } = await startSentinels(); // a server without the module
  const ms = await took(() => assert.rejects(newLocks(sentinel).lock(KEY, { wait: 20_000 }).acquire(), (error) =>
    error instanceof LockRefused && error.message.includes("is the module lock loaded?")));
  assert(ms < 900, String(ms));
});

test("SIGTERM releases and calls off, where the program closes its locks", async () => {
  const server = await startServer();
  const first = holder(server, 30_000);
  await first.held;
  const second = holder(server, 30_000);
  await server.waitForWaiters(KEY, 1);
  second.child.kill("SIGTERM");
  await server.waitForWaiters(KEY, 0, 2000);
  first.child.kill("SIGTERM");
  assert.deepEqual(await once(first.child, "exit"), [143, null]);
  assert.equal(await server.info(KEY), undefined);
});

test("after a kill -9 the lease ends, and the next in line goes on", async () => {
  const server = await startServer();
  const first = holder(server, 1000);
  await first.held;
  const other = Pending.of(newLocks(server).lock(KEY, { wait: 30_000 }));
  await server.waitForWaiters(KEY, 1);
  await pause(1300); // longer than the lease: it is kept
  assert.equal(other.grant, undefined);
  first.child.kill("SIGKILL");
  assert((await took(() => other.granted())) < 1800);
  await (await other.granted()).release();
});

test("LockBusy is for others, not for outages", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy), others = newLocks(server);
  const first = await others.lock(KEY).acquire();
  await assert.rejects(locks.lock(KEY, { wait: 300 }).acquire(), LockBusy);
  await proxy.order("silence");
  const ms = await took(() => assert.rejects(locks.lock(KEY, { wait: 1500 }).acquire(), LockUnavailable));
  assert(ms < 2900, String(ms));
  await proxy.order("speak");
  await first.release();
});
