/** Locks by Sentinels and in clusters: failovers, slots that move, nodes that hang. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Cluster, Redis } from "ioredis";
import { LockUnavailable } from "../src/index.ts";
import { type Server, ends, eventually, nodeOf, startCluster, startSentinels } from "./servers.ts";
import { KEY, Pending, newLocks, toldLocks, took } from "./support.ts";

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
