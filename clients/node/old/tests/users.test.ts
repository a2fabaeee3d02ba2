/** The users of docs/operations.md: what this package and ioredis send by themselves is allowed to them. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster, Redis } from "ioredis";
import type { Client } from "../src/index.ts";
import { type Server, ends, nodeOf, startCluster, startSentinels, startServer } from "./servers.ts";
import { KEY, Pending, newLocks } from "./support.ts";

const USER = { username: "application", password: "secret", connectionName: "orders" };

/** Also when all connections are closed meanwhile. `home` is the node that has the lock. */
async function holdWaitKeepRelease(client: Redis | Cluster, nodes: readonly Server[], home: Server): Promise<void> {
  client.on("error", () => {});
  ends.push(() => client.disconnect());
  const locks = newLocks(client as Exclude<Client, () => unknown>);
  const grant = await locks.lock(KEY, { lease: 10_000 }).acquire();
  const other = Pending.of(locks.lock(KEY, { wait: 60_000 }));
  await home.waitForWaiters(KEY, 1);
  for (const node of nodes) await node.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  await grant.check();
  await home.waitForWaiters(KEY, 1);
  const fixed = await locks.lock(`${KEY}{lock:orders:42}`, { fixed: true }).acquire();
  await fixed.check();
  await fixed.release();
  await grant.release();
  await (await other.granted()).release();
  assert.equal(await home.info(KEY), undefined);
  await client.ping();
}

test("a user on one server, in another database", async () => {
  const server = await startServer();
  await server.order("user", { name: "application" });
  await server.redis.select(2);
  await holdWaitKeepRelease(new Redis({ port: server.port, db: 2, ...USER }), [server], server);
  assert.deepEqual(await server.refused(), []);
});

test("a user in a cluster", async () => {
  const nodes = await startCluster();
  for (const node of nodes) await node.order("user", { name: "application" });
  const client = new Cluster([{ host: "127.0.0.1", port: nodes[0]?.port ?? 0 }], { redisOptions: USER });
  await holdWaitKeepRelease(client, nodes, await nodeOf(nodes, KEY));
  for (const node of nodes) assert.deepEqual(await node.refused(), []);
});

test("a user by a Sentinel", async () => {
  const { primary, replica, sentinel } = await startSentinels();
  for (const server of [primary, replica]) await server.order("user", { name: "application" });
  await sentinel.order("user", { name: "discovery" });
  const client = new Redis({ name: "lock", sentinels: [{ host: "127.0.0.1", port: sentinel.port }],
    sentinelUsername: "discovery", sentinelPassword: "secret", failoverDetector: true, ...USER });
  await holdWaitKeepRelease(client, [primary, replica], primary);
  for (const server of [primary, replica, sentinel]) assert.deepEqual(await server.refused(), []);
});

test("a user runs a script that fences", async () => {
  const server = await startServer();
  await server.order("user", { name: "application" });
  const client = new Redis({ port: server.port, ...USER });
  client.on("error", () => {});
  ends.push(() => client.disconnect());
  const locks = newLocks(client);
  await locks.lock(KEY).run((grant) => client.eval(`redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
    return redis.call('SET', KEYS[2], ARGV[2])`, 2, KEY, "stock:apples", grant.token, 7));
  assert.equal(await server.redis.get("stock:apples"), "7");
  assert.deepEqual(await server.refused(), []);
});
