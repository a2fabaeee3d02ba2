/** The same locks on node-redis. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, createCluster } from "@redis/client";
import { LockBusy, LockRefused, LockUnavailable, Locks } from "../src/index.ts";
import { ends, eventually, nodeOf, startCluster, startProxy, startServer } from "./servers.ts";
import { KEY, Pending, newLocks, newNodeRedis, took } from "./support.ts";

for (const RESP of [2, 3] as const) {
  test(`locks, waits, losses and releases by RESP${RESP}`, async () => {
    const server = await startServer();
    const client = await newNodeRedis(server, { RESP, keyPrefix: "" , database: 2 });
    await server.redis.select(2);
    const locks = newLocks(client);
    const grant = await locks.lock(KEY).acquire();
    assert.equal((await server.info(KEY))?.["token"], grant.token);
    await grant.check();
    await assert.rejects(locks.lock(KEY).acquire(), LockBusy);
    const other = Pending.of(locks.lock(KEY, { wait: 20_000 }));
    await server.waitForWaiters(KEY, 1);
    assert.equal((await locks.holders(KEY))[0]?.owner, grant.owner);
    const abort = new AbortController();
    const aborted = Pending.of(locks.lock(KEY, { wait: Infinity }), abort.signal);
    await server.waitForWaiters(KEY, 2);
    abort.abort();
    await assert.rejects(aborted.over, { name: "AbortError" });
    await grant.release();
    const next = await other.granted();
    assert(await locks.forceUnlock(KEY));
    await eventually(() => next.signal.aborted, "the loss");
    await locks.close();
    await client.ping();
  });
}

test("a keeper that is cut comes back, a silent one is given up", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(await newNodeRedis(proxy));
  const grant = await locks.lock(KEY, { lease: 3000 }).acquire();
  await server.redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  await grant.check();
  await proxy.order("silence");
  const ms = await took(() => assert.rejects(locks.lock("other").acquire(), LockUnavailable));
  assert(ms < 1500, String(ms));
  await eventually(() => !grant.held, "the loss");
});

test("a wrong password is told at once, and a factory will do", async () => {
  const server = await startServer();
  await server.redis.call("ACL", "SETUSER", "app", "on", ">x", "~*", "+@all");
  const make = (password: string) => () => createClient({ username: "app", password,
    socket: { port: server.port, reconnectStrategy: false } });
  const wrong = new Locks(make("y"));
  ends.push(() => wrong.close());
  const ms = await took(() => assert.rejects(wrong.lock(KEY, { wait: 9000 }).acquire(), LockRefused));
  assert(ms < 900, String(ms));
  const locks = new Locks(make("x"));
  ends.push(() => locks.close());
  await locks.lock(KEY).run(async () => assert.equal((await locks.holders(KEY)).length, 1));
});

test("a look at a server that is down leaves no client of a factory behind", async () => {
  const server = await startServer();
  const made: ReturnType<typeof createClient>[] = [];
  const locks = new Locks(() => {
    const client = createClient({ socket: { port: server.port } }) as (typeof made)[number];
    made.push(client);
    return client;
  });
  ends.push(() => { for (const client of made) if (client.isOpen) client.destroy(); });
  ends.push(() => locks.close());
  assert.deepEqual(await locks.holders(KEY), []);
  await server.order("kill");
  await assert.rejects(locks.holders(KEY), LockUnavailable);
  await eventually(() => made.length === 2 && made.every((client) => !client.isOpen), "the end of the clients", 1000);
});

test("in a cluster", async () => {
  const cluster = await startCluster();
  const client = createCluster({ rootNodes: [{ socket: { port: cluster[0]?.port ?? 0 } }] });
  client.on("error", () => {});
  await client.connect();
  ends.push(() => client.destroy());
  const locks = newLocks(client);
  for (let number = 0; number < 9; number += 1) {
    const key = `lock:orders:${number}`;
    const node = await nodeOf(cluster, key);
    const grant = await locks.lock(key).acquire();
    assert.equal((await node.info(key))?.["owner"], grant.owner);
    const other = Pending.of(locks.lock(key, { wait: 9000 }));
    await node.waitForWaiters(key, 1);
    assert.equal((await locks.holders(key)).length, 1);
    await grant.release();
    await (await other.granted()).release();
  }
});
