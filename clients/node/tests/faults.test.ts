/** What a lock promises when servers, networks and processes fail. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Cluster, Redis } from "ioredis";
import { LockBusy, LockLost, LockRefused, LockUnavailable } from "../src/index.ts";
import { Place, type Server, ends, eventually, nodeOf, startCluster, startProxy, startSentinels, startServer } from "./servers.ts";
import { KEY, Pending, newLocks, newRedis, stall, toldLocks, took } from "./support.ts";

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

test("full connections and a busy server pass", async () => {
  const server = await startServer({ maxclients: "20", "lua-time-limit": "50", "busy-reply-threshold": "50" });
  const locks = newLocks(server);
  await server.redis.ping();
  const others: Redis[] = [];
  for (let more = 0; more < 25; more += 1) others.push(newRedis(server, { retryStrategy: () => null }));
  await pause(300);
  const full = Pending.of(locks.lock(KEY, { wait: 20_000 }));
  await pause(500);
  for (const it of others) it.disconnect();
  const grant = await full.granted();
  const script = newRedis(server).eval("local t = redis.call('TIME'); local e = t[1] * 1000 + t[2] / 1000 + 700; repeat t = redis.call('TIME') until t[1] * 1000 + t[2] / 1000 > e return 1", 0);
  await pause(200);
  await grant.check();
  await script;
  await grant.release();
});

test("a renewal that is answered NOPERM or BUSY for a while is sent again", async () => {
  const server = await startServer();
  await server.redis.call("ACL", "SETUSER", "app", "on", ">x", "~*", "+@all");
  const { locks, told } = toldLocks(newRedis(server, { username: "app", password: "x" }));
  const grant = await locks.lock(KEY, { lease: 8000 }).acquire();
  await server.redis.call("ACL", "SETUSER", "app", "-lock.renew");
  await server.redis.call("CLIENT", "KILL", "USER", "app");
  await eventually(() => told.some(({ type }) => type === "keeper-back"), "the keeper");
  await pause(700);
  await server.redis.call("ACL", "SETUSER", "app", "+lock.renew");
  await eventually(async () => (await server.holders(KEY))[0]?.["kept-by"] !== 0, "the keeping");
  await grant.check();
  await grant.release();
  assert(!told.some(({ type }) => type === "lost"));
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

test("through a failover by a Sentinel the grant is kept, and the wait goes on", async () => {
  const { primary, replica, sentinel } = await startSentinels();
  const client = new Redis({ sentinels: [{ host: "127.0.0.1", port: sentinel.port }], name: "lock", retryStrategy: () => 50 });
  client.on("error", () => {});
  ends.push(() => client.disconnect());
  const locks = newLocks(client);
  const task = locks.task();
  const grant = await task.lock(KEY, { lease: 60_000 }).acquire();
  const other = Pending.of(locks.lock(KEY, { wait: 90_000 }));
  await primary.waitForWaiters(KEY, 1);
  await eventually(async () => (await replica.info(KEY))?.["token"] === grant.token, "the grant to get to the replica");
  await primary.order("kill");
  await replica.waitForWaiters(KEY, 1, 60_000);
  await eventually(async () => (await replica.holders(KEY))[0]?.["kept-by"], "the keeping");
  await (await task.lock(KEY).acquire()).release();
  await grant.check();
  assert.equal(other.grant, undefined);
  await grant.release();
  const next = await other.granted();
  assert(next.token > grant.token);
  await next.release();
  assert.equal(await replica.info(KEY), undefined);
});

test("in a cluster each call goes to the node of its key, and slots may move", async () => {
  const cluster = await startCluster();
  const client = new Cluster([{ host: "127.0.0.1", port: cluster[0]?.port ?? 0 }]);
  client.on("error", () => {});
  ends.push(() => client.disconnect());
  const locks = newLocks(client);
  for (let number = 0; number < 12; number += 1) {
    const key = `lock:orders:${number}`;
    const node = await nodeOf(cluster, key);
    await locks.lock(key).run(async () => assert.equal((await node.info(key))?.["holds"], 1));
    assert.equal(await node.info(key), undefined);
  }
  for (const { redis } of cluster) assert(!(await redis.info("errorstats")).includes("MOVED"));
  const home = await nodeOf(cluster, KEY);
  const away = cluster.find((node) => node !== home);
  assert(away);
  const first = await locks.lock(KEY).acquire();
  const other = Pending.of(locks.lock(KEY, { wait: 30_000 }));
  await home.waitForWaiters(KEY, 1);
  await first.release();
  await (await other.granted()).release();
  // The slot moves while the lock is held: the key goes along, and is kept on.
  const slot = (await home.redis.call("CLUSTER", "KEYSLOT", KEY)) as number;
  const id = async (node: Server): Promise<string> => (await node.redis.call("CLUSTER", "MYID")) as string;
  const [from, to] = [await id(home), await id(away)];
  const held = await locks.lock(KEY, { lease: 20_000 }).acquire();
  await away.redis.call("CLUSTER", "SETSLOT", slot, "IMPORTING", from);
  await home.redis.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to);
  await home.redis.call("MIGRATE", "127.0.0.1", away.port, KEY, 0, 5000);
  for (const node of [away, home, ...cluster]) await node.redis.call("CLUSTER", "SETSLOT", slot, "NODE", to);
  await eventually(async () => (await away.holders(KEY))[0]?.["kept-by"], "the keeping at the other node");
  await held.check();
  assert.equal((await away.info(KEY))?.["token"], held.token);
  await held.release();
  await (await locks.lock(KEY).acquire()).release();
});

test("while its slot moves, the answer ASK passes", async () => {
  const cluster = await startCluster();
  const client = new Cluster([{ host: "127.0.0.1", port: cluster[0]?.port ?? 0 }]);
  client.on("error", () => {});
  ends.push(() => client.disconnect());
  const locks = newLocks(client);
  const home = await nodeOf(cluster, KEY);
  const away = cluster.find((node) => node !== home);
  assert(away);
  const slot = (await home.redis.call("CLUSTER", "KEYSLOT", KEY)) as number;
  const id = async (node: Server): Promise<string> => (await node.redis.call("CLUSTER", "MYID")) as string;
  const [from, to] = [await id(home), await id(away)];
  const held = await locks.lock(KEY, { lease: 30_000 }).acquire();
  await away.redis.call("CLUSTER", "SETSLOT", slot, "IMPORTING", from);
  await home.redis.call("CLUSTER", "SETSLOT", slot, "MIGRATING", to);
  await home.redis.call("MIGRATE", "127.0.0.1", away.port, KEY, 0, 5000);
  const isAsked = async (): Promise<boolean> => (await home.redis.info("errorstats")).includes("errorstat_ASK");
  await eventually(isAsked, "a renewal that is sent on");
  await assert.rejects(held.check(), LockUnavailable);
  await assert.rejects(locks.lock(`{${KEY}}new`).acquire(), LockUnavailable);
  await home.redis.config("RESETSTAT");
  const waiting = Pending.of(locks.lock(`{${KEY}}new`, { wait: 30_000 }));
  await eventually(isAsked, "a call that is sent on");
  for (const node of [away, home, ...cluster]) await node.redis.call("CLUSTER", "SETSLOT", slot, "NODE", to);
  const granted = await waiting.granted();
  assert.equal((await away.info(`{${KEY}}new`))?.["token"], granted.token);
  await granted.release();
  await eventually(async () => (await away.holders(KEY))[0]?.["kept-by"], "the keeping at the other node");
  await held.check();
  await held.release();
});

test("one hung node of a cluster holds up no call to another", async () => {
  const cluster = await startCluster();
  const client = new Cluster([{ host: "127.0.0.1", port: cluster[0]?.port ?? 0 }]);
  client.on("error", () => {});
  ends.push(() => client.disconnect());
  const { locks, told } = toldLocks(client);
  const home = await nodeOf(cluster, KEY);
  const elsewhere: string[] = [];
  for (let number = 0; elsewhere.length < 20; number += 1) {
    if ((await nodeOf(cluster, `k${number}`)) !== home) elsewhere.push(`k${number}`);
  }
  const kept = await Promise.all(elsewhere.slice(0, 5).map((key) => locks.lock(key, { lease: 3000 }).acquire()));
  const lost = await locks.lock(KEY, { lease: 1500 }).acquire();
  await home.order("pause");
  const hung = assert.rejects(locks.lock(KEY).acquire(), LockUnavailable);
  for (const key of elsewhere.slice(5)) {
    const ms = await took(() => locks.lock(key).run(() => {}));
    assert(ms < 900, String(ms));
  }
  await hung;
  await eventually(() => !lost.held, "the loss at the hung node");
  await pause(1500);
  for (const grant of kept) await grant.check();
  assert.equal(told.filter(({ type }) => type === "lost").length, 1);
  for (const grant of kept) await grant.release();
  await home.order("resume");
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
