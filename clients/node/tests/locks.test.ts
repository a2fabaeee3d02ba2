import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Cluster as ClusterClient, Redis, type RedisOptions } from "ioredis";
import { type Lock, LockBusy, LockLost, Locks, type LockOptions } from "../src/redis-lock.js";
import { ends, eventually, nodeOf, Server, startCluster, startProxy, startSentinels, startServer } from "./servers.js";

const KEY = "lock:orders:42";

function newLocks(where: { port: number } | Redis | ClusterClient, options: RedisOptions = {}): Locks {
  const client = "port" in where ? new Redis({ port: where.port, ...options }) : where;
  client.on("error", () => {});
  const locks = new Locks(client, "test");
  ends.push(() => client.disconnect(), () => locks.close());
  return locks;
}

/** Other work, which takes the lock, and ends when told. */
class Other {
  lock?: Lock;
  error?: unknown;
  end!: () => void;
  readonly over: Promise<void>;

  constructor(locks: Locks, options: LockOptions = { wait: 60_000 }) {
    const told = new Promise<void>((resolve) => { this.end = resolve; });
    this.over = locks.withLock(KEY, options, (lock) => { this.lock = lock; return told; });
    this.over.catch((error) => { this.error = error; });
  }

  async holds(): Promise<Lock> {
    await eventually(() => this.lock ?? this.error, "another to hold the lock");
    assert.equal(this.error, undefined);
    return this.lock!;
  }

  async ends(): Promise<void> {
    this.end();
    await this.over;
  }
}

function holder(server: Server, lease: number): { child: ChildProcess; held: Promise<unknown> } {
  const file = path.join(import.meta.dirname, "holder.js");
  const child = spawn(process.execPath, [file, String(server.port), String(lease)], { stdio: ["ignore", "pipe", "inherit"] });
  ends.push(() => child.kill("SIGKILL"));
  return { child, held: once(child.stdout!, "data") };
}

test("the wait is one call on its own connection and outlasts the read time-out", async () => {
  const server = await startServer();
  const locks = newLocks(server), waiting = newLocks(server, { commandTimeout: 300 });
  const first = new Other(locks);
  await first.holds();
  const other = new Other(waiting, { wait: 9000 });
  await server.waitForWaiters(KEY, 1);
  const [waiter] = await server.waiters(KEY);
  assert(waiter["left-ms"] > 8000 && waiter["left-ms"] <= 9000);
  await pause(2500); // longer than the read time-out of other calls
  assert.equal((await server.waiters(KEY))[0]["client-id"], waiter["client-id"]);
  await first.ends();
  await other.holds();
  assert.equal(await server.calls("lock.acquire"), 3); // one attempt each, and one wait
  await other.ends();
  assert.equal(await server.info(KEY), undefined);
});

test("a wait that is over or aborted leaves the line at once", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const first = new Other(locks);
  await first.holds();
  const abort = new AbortController();
  const others = [new Other(locks, { wait: 60_000, signal: abort.signal }), new Other(locks, { wait: 300 }), new Other(locks)];
  await server.waitForWaiters(KEY, 3);
  await assert.rejects(others[1].over, LockBusy);
  assert.equal((await server.waiters(KEY)).length, 2);
  const reason = new Error("cancelled");
  abort.abort(reason);
  await server.waitForWaiters(KEY, 1, 1000);
  await assert.rejects(others[0].over, reason);
  await first.ends();
  await others[2].holds();
  await others[2].ends();
  assert.equal(await server.info(KEY), undefined);
});

test("a grant that crosses the abort is released", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(server), waiting = newLocks(proxy);
  await proxy.inject("keep", "BLOCK");
  const first = new Other(locks);
  await first.holds();
  const abort = new AbortController();
  const other = new Other(waiting, { wait: 60_000, signal: abort.signal });
  await server.waitForWaiters(KEY, 1);
  await first.ends();
  await eventually(() => server.info(KEY), "the grant");
  abort.abort();
  await assert.rejects(other.over);
  assert.equal(await server.info(KEY), undefined);
});

test("close cancels all waits, releases and aborts", async () => {
  const server = await startServer();
  const locks = newLocks(server), waiting = newLocks(server);
  const first = new Other(locks);
  const lock = await first.holds();
  const others = [new Other(waiting), new Other(waiting)];
  await server.waitForWaiters(KEY, 2);
  await waiting.close();
  assert.deepEqual(await server.waiters(KEY), []);
  for (const other of others) await assert.rejects(other.over, LockBusy);
  await locks.close();
  assert.equal(await server.info(KEY), undefined);
  assert(lock.signal.aborted);
  await assert.rejects(first.over, LockLost);
  await assert.rejects(locks.withLock(KEY, {}, async () => {}), LockBusy);
});

test("the lease is counted from the sending and not by the wall clock", async (t) => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  await locks.withLock("other", {}, async () => {});
  await proxy.inject({ delay: 500 }, "LOCK.ACQUIRE");
  await locks.withLock(KEY, { lease: 10_000 }, async (lock) => {
    assert(lock.validFor > 8500 && lock.validFor <= 9500, String(lock.validFor));
    t.mock.method(Date, "now", () => 0);
    assert(lock.validFor > 8500 && lock.validFor <= 9500, String(lock.validFor));
  });
});

test("after a wait the lease is counted from one renewal", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const first = new Other(locks);
  await first.holds();
  const other = new Other(locks, { wait: 60_000, lease: 3000 });
  await server.waitForWaiters(KEY, 1);
  await pause(1500);
  const renewals = await server.calls("lock.renew");
  await first.ends();
  assert((await other.holds()).validFor > 2200); // from the sending of the wait, 1500 are left
  assert.equal(await server.calls("lock.renew"), renewals + 1);
  await other.ends();
});

test("each withLock is an owner of its own", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  await locks.withLock(KEY, {}, async (lock) => {
    assert.match(lock.owner, new RegExp(`^test:[^:]+:${process.pid}:[0-9a-f-]{36}$`));
    assert.equal((await server.info(KEY))!.owner, lock.owner);
    await assert.rejects(locks.withLock(KEY, {}, async () => {}), LockBusy);
  });
});

for (const innerFirst of [true, false]) {
  test(`nested use counts, and ends in any order (inner ${innerFirst ? "first" : "last"})`, async () => {
    const server = await startServer();
    const locks = newLocks(server);
    const state = async () => { const info = await server.info(KEY); return [info?.holds, info?.["lease-ms"]]; };
    let endOuter!: () => void, endInner!: () => void, inner!: Promise<void>, lock!: Lock;
    const outer = locks.withLock(KEY, { lease: 5000 }, async (it) => {
      lock = it;
      inner = lock.again(() => new Promise((resolve) => { endInner = resolve; }), { lease: 30_000 });
      await new Promise<void>((resolve) => { endOuter = resolve; });
    });
    await eventually(() => [endOuter, endInner].every(Boolean), "both");
    assert.deepEqual(await state(), [2, 30_000]);
    assert(lock.validFor > 28_000);
    const { token } = (await server.info(KEY))!;
    assert(lock.token === token && token > 2 ** 31);
    innerFirst ? endInner() : endOuter();
    await (innerFirst ? inner : outer);
    assert.deepEqual(await state(), [1, 30_000]);
    assert.equal(lock.token, token);
    innerFirst ? endOuter() : endInner();
    await Promise.all([inner, outer]);
    assert.equal(await server.info(KEY), undefined);
    assert.throws(() => lock.token, LockLost);
  });
}

test("many that enter and leave at the same time are counted right", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  await locks.withLock(KEY, {}, async (lock) => {
    await proxy.inject("cut", "HOLDS");
    let inside = 0, most = 0;
    await Promise.all(Array.from({ length: 20 }, () => lock.again(async () => {
      inside += 1;
      await eventually(() => inside === 20, "all to be inside");
      most = Math.max(most, (await server.info(KEY))!.holds);
    })));
    assert.equal(most, 21);
    assert.equal((await server.info(KEY))!.holds, 1);
  });
  assert.equal(await server.info(KEY), undefined);
});

test("calls whose replies are lost do not add up", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const holdsAre = async (number: number, word: string) => {
    assert.equal((await proxy.order("lost")).pending, 0);
    assert.equal((await server.info(KEY))?.holds ?? 0, number);
  };
  await proxy.inject("cut", "LOCK.ACQUIRE");
  await locks.withLock(KEY, { lease: 2000 }, async (lock) => {
    await holdsAre(1, "LOCK.ACQUIRE");
    await proxy.inject("cut", "LOCK.ACQUIRE");
    await lock.again(async () => {
      await holdsAre(2, "LOCK.ACQUIRE");
      await proxy.inject("cut", "LOCK.RENEW");
      const renewals = await server.calls("lock.renew");
      await eventually(async () => (await server.calls("lock.renew")) > renewals + 1, "another renewal");
      await holdsAre(2, "LOCK.RENEW");
      await proxy.inject("cut", "LOCK.RELEASE");
    });
    await holdsAre(1, "LOCK.RELEASE");
    lock.check();
    await proxy.inject("cut", "LOCK.RELEASE");
  }); // without LockLost
  await holdsAre(0, "LOCK.RELEASE");

  const first = new Other(newLocks(server));
  await first.holds();
  await proxy.inject("cut", "BLOCK");
  const other = new Other(locks);
  await server.waitForWaiters(KEY, 1);
  await first.ends();
  await other.holds();
  assert.equal((await server.info(KEY))!.holds, 1);
  await other.ends();
  assert.equal(await server.info(KEY), undefined);
});

test("one timer renews all locks every third of their lease", async (t) => {
  const server = await startServer();
  const locks = newLocks(server);
  let endAll!: () => void;
  const end = new Promise<void>((resolve) => { endAll = resolve; });
  let held = 0;
  const all = Array.from({ length: 20 }, (_, number) =>
    locks.withLock(`many:${number}`, { lease: 1500 }, () => { held += 1; return end; }));
  await eventually(() => held === 20, "all locks");
  const before = await server.calls("lock.renew");
  await pause(4000);
  const renewals = ((await server.calls("lock.renew")) - before) / 20;
  assert(renewals >= 6.3 && renewals <= 8.5, String(renewals)); // every 500 ms
  // Each call has a timer, too; between renewals there is the one for all locks.
  const timers = () => process.getActiveResourcesInfo().filter((it) => it === "Timeout").length;
  await eventually(() => timers() <= 2, "one timer for all");
  endAll();
  await Promise.all(all);
});

for (const answer of ["NOTHELD", "NOTOWNER", "FENCED"]) {
  test(`a renewal that is answered ${answer} stops the work at once`, async () => {
    const server = await startServer();
    const locks = newLocks(server);
    let stopped!: Promise<unknown>, lock!: Lock;
    const began = performance.now();
    await assert.rejects(locks.withLock(KEY, { lease: 3000 }, async (it) => {
      lock = it;
      const transaction = server.redis.multi().del(KEY);
      if (answer !== "NOTHELD") transaction.call("LOCK.ACQUIRE", KEY, answer === "FENCED" ? lock.owner : "another");
      await transaction.exec();
      stopped = pause(60_000, undefined, { signal: lock.signal });
      await stopped;
    }), (error) => error instanceof LockLost && error.message.includes(answer));
    assert(performance.now() - began < 2500); // a third of the lease
    await assert.rejects(stopped);
    assert.throws(() => lock.token, LockLost);
    assert.equal(lock.validFor, 0);
    assert.equal((await server.info(KEY)) === undefined, answer === "NOTHELD"); // another's is not touched
  });
}

test("silence past the lease is a loss at its end, told also to work that does not listen", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  let began = 0;
  await assert.rejects(locks.withLock(KEY, { lease: 1000 }, async () => {
    began = performance.now();
    await proxy.order("silence");
    await new Promise(() => {});
  }), LockLost);
  const took = performance.now() - began;
  assert(took > 900 && took < 1500, String(took));
});

test("work that blocks the loop past its lease is refused the token", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  let refused = false;
  await assert.rejects(locks.withLock(KEY, { lease: 200 }, async (lock) => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    assert(!lock.signal.aborted);
    try { lock.token; } catch (error) { refused = error instanceof LockLost; }
  }), LockLost);
  assert(refused);
});

test("a lock that was lost before its release is told", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  await assert.rejects(locks.withLock(KEY, {}, () => server.redis.del(KEY)), /NOTHELD/);
});

test("SIGTERM stops renewing, releases and cancels", async () => {
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

test("after a kill the lease ends and the next waiter goes on", async () => {
  const server = await startServer();
  const first = holder(server, 1500);
  await first.held;
  const other = new Other(newLocks(server));
  await server.waitForWaiters(KEY, 1);
  await pause(2000); // longer than the lease: it is renewed
  assert.equal(other.lock, undefined);
  first.child.kill("SIGKILL");
  const killed = performance.now();
  await other.holds();
  assert(performance.now() - killed < 3000);
  await other.ends();
});

test("through a failover the grant is renewed and the wait goes on", async () => {
  const sentinels = await startSentinels();
  const client = new Redis({ sentinels: [{ host: "127.0.0.1", port: sentinels.sentinel.port }], name: "lock" });
  const locks = newLocks(client);
  const first = new Other(locks);
  const lock = await first.holds();
  const { token } = lock;
  const other = new Other(locks);
  await sentinels.primary.waitForWaiters(KEY, 1);
  await eventually(async () => (await sentinels.replica.info(KEY))?.token === token, "the grant to get to the replica");
  await sentinels.primary.order("kill");
  await sentinels.replica.waitForWaiters(KEY, 1, 60_000);
  await lock.again(async () => assert.equal((await sentinels.replica.info(KEY))!.holds, 2));
  assert.equal(lock.token, token);
  assert.equal(other.lock, undefined);
  await first.ends();
  assert((await other.holds()).token > token);
  await other.ends();
  assert.equal(await sentinels.replica.info(KEY), undefined);
});

test("in a cluster each call goes to the node of its key", async () => {
  const cluster = await startCluster();
  const locks = newLocks(new ClusterClient([{ host: "127.0.0.1", port: cluster[0].port }]));
  for (let number = 0; number < 12; number += 1) {
    const key = `lock:orders:${number}`;
    const node = await nodeOf(cluster, key);
    await locks.withLock(key, {}, (lock) => lock.again(async () => assert.equal((await node.info(key))!.holds, 2)));
    assert.equal(await node.info(key), undefined);
  }
  const first = new Other(locks);
  await first.holds();
  const other = new Other(locks);
  await (await nodeOf(cluster, KEY)).waitForWaiters(KEY, 1);
  await first.ends();
  await other.holds();
  await other.ends();
  for (const { redis } of cluster) assert(!(await redis.info("errorstats")).includes("MOVED"));
});
