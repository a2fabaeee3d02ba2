/** The users of docs/operations.md: what ioredis sends by itself is allowed to them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster as ClusterClient, Redis } from "ioredis";
import { Locks } from "../src/redis-lock.js";
import { ends, eventually, nodeOf, Server, startCluster, startSentinels, startServer } from "./servers.js";

const KEY = "lock:orders:42";
const USER = { username: "application", password: "secret", connectionName: "orders" };

/** Also when all connections are closed meanwhile. `home` is the node that has the lock. */
async function holdWaitRenewRelease(client: Redis | ClusterClient, nodes: Server[], home: Server): Promise<void> {
  client.on("error", () => {});
  const locks = new Locks(client, "test");
  ends.push(() => client.disconnect(), () => locks.close());
  let other: Promise<void>;
  await locks.withLock(KEY, { lease: 1500 }, async (lock) => {
    other = locks.withLock(KEY, { wait: 60_000 }, async (next) => next.check());
    other.catch(() => {});
    await home.waitForWaiters(KEY, 1);
    for (const node of nodes) await node.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    const renewals = await home.calls("lock.renew");
    await eventually(async () => (await home.calls("lock.renew")) > renewals + 3, "renewals");
    await home.waitForWaiters(KEY, 1);
    lock.check();
  });
  await other!;
  assert.equal(await home.info(KEY), undefined);
  await client.ping();
}

test("a user on one server, in another database", async () => {
  const server = await startServer();
  await server.order("user", { name: "application" });
  await server.redis.select(2);
  await holdWaitRenewRelease(new Redis({ port: server.port, db: 2, ...USER }), [server], server);
  assert.deepEqual(await server.refused(), []);
});

test("a user in a cluster", async () => {
  const nodes = await startCluster();
  for (const node of nodes) await node.order("user", { name: "application" });
  const client = new ClusterClient([{ host: "127.0.0.1", port: nodes[0].port }], { redisOptions: USER });
  await holdWaitRenewRelease(client, nodes, await nodeOf(nodes, KEY));
  for (const node of nodes) assert.deepEqual(await node.refused(), []);
});

test("a user by a Sentinel", async () => {
  const { primary, replica, sentinel } = await startSentinels();
  for (const server of [primary, replica]) await server.order("user", { name: "application" });
  await sentinel.order("user", { name: "discovery" });
  const client = new Redis({ name: "lock", sentinels: [{ host: "127.0.0.1", port: sentinel.port }],
    sentinelUsername: "discovery", sentinelPassword: "secret", failoverDetector: true, ...USER });
  await holdWaitRenewRelease(client, [primary, replica], primary);
  for (const server of [primary, replica, sentinel]) assert.deepEqual(await server.refused(), []);
});

test("a user runs a script that fences", async () => {
  const server = await startServer();
  await server.order("user", { name: "application" });
  const client = new Redis({ port: server.port, ...USER,
    scripts: { write: { numberOfKeys: 2, lua: `redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
      return redis.call('SET', KEYS[2], ARGV[2])` } } }) as Redis & { write(...words: any[]): Promise<unknown> };
  const locks = new Locks(client, "test");
  ends.push(() => client.disconnect(), () => locks.close());
  await locks.withLock(KEY, {}, (lock) => client.write(KEY, "stock:apples", lock.token, 7));
  assert.equal(await server.redis.get("stock:apples"), "7");
  assert.deepEqual(await server.refused(), []);
});
