/** Faults of earlier clients, and of networks: those that the common trial (crates/testing/trial) does not have. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createClient } from "@redis/client";
import { type Grant, LockBusy, LockLost, LockUnavailable } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, clients, newLocks, stall, took } from "./support.ts";

for (const [library, clientOf] of Object.entries(clients)) {
  test(`300 waits need two connections: ${library}`, async () => {
    const server = await startServer({ maxclients: "20" });
    const locks = newLocks(clientOf(server));
    const held = await locks.lock(KEY).acquire();
    const waits = Array.from({ length: 300 }, () => locks.lock(KEY).acquire());
    await server.waitForWaiters(KEY, 300);
    const list = (await server.redis.client("LIST")) as string;
    assert(list.trim().split("\n").length <= 3, list); // one is the test's
    await held.release();
    for (const wait of waits) await (await wait).release();
    assert.equal(await server.info(KEY), undefined);
  });

  test(`a silent server: ${library}`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    const locks = newLocks(clientOf(proxy), { lease: 2000 });
    const held = await locks.lock("held").acquire();
    await proxy.order("swallow");
    for (const [wait, longest] of [[0, 1900], [1500, 3600]] as const) {
      const ms = await took(() => assert.rejects(locks.lock(KEY).acquire({ wait }),
        (error) => error instanceof LockUnavailable && error.message.includes(String(proxy.port))));
      assert(ms < longest, String(ms));
    }
    await eventually(() => held.lost, "the loss");
    assert.equal(held.lost?.reason, "silence");
    await proxy.order("speak");
    await (await locks.lock(KEY).acquire({ wait: 5000 })).release();
    await server.waitUntilFree("held");
  });

  test(`the first call after an outage is quick: ${library}`, async () => {
    const server = await startServer();
    const locks = newLocks(clientOf(server));
    await (await locks.lock(KEY).acquire()).release();
    await server.order("stop");
    await assert.rejects(locks.lock(KEY).acquire({ wait: 3000 }), LockUnavailable);
    await server.order("restart");
    const ms = await took(async () => (await locks.lock(KEY).acquire({ wait: 5000 })).release());
    assert(ms < 500, String(ms));
  });
}

test("acquires that fail in an outage leave nothing", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  await (await locks.lock(KEY).acquire()).release();
  const fail = (): Promise<unknown> => Promise.all(Array.from({ length: 1000 }, (_, i) =>
    assert.rejects(locks.lock(`lock:${i}`).acquire({ wait: 0 }), LockUnavailable)));
  await server.order("stop");
  await fail();
  const memory = async (): Promise<number> => {
    await pause(100);
    (globalThis as { gc?: () => void }).gc?.();
    return process.memoryUsage().heapUsed;
  };
  const before = await memory();
  for (let i = 0; i < 4; i += 1) await fail();
  const grown = (await memory()) - before;
  assert(grown < 2_000_000, `${grown} bytes`);
  await server.order("restart");
  await (await locks.lock(KEY).acquire({ wait: 5000 })).release();
});

test("losses do not have the other grants renewed", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grants = await Promise.all(Array.from({ length: 2000 }, (_, i) => locks.lock(`lock:${i}`).acquire()));
  await server.redis.del(...grants.slice(0, 10).map((grant) => grant.key));
  await eventually(() => grants.filter((grant) => grant.lost).length === 10, "the losses");
  await grants[10]?.check();
  assert.equal(await server.calls("lock.renew"), 0);
  assert(await server.calls("lock.session\\|poll") < 20);
});

test("a process that was suspended keeps its locks and its places", async () => {
  const server = await startServer();
  const locks = newLocks(server, { lease: 1000 });
  const held = await locks.lock("held").acquire();
  const other = newLocks(server, { service: "other" });
  const first = await other.lock(KEY).acquire();
  const wait = locks.lock(KEY).acquire({ wait: 60_000 });
  await server.waitForWaiters(KEY, 1);
  const releasing = first.release();
  stall(3000); // longer than the lease
  assert(!held.held);
  await releasing;
  await eventually(() => held.held, "the grant to be sure again");
  await (await wait).release();
  await held.release();
});

test("a release without an answer is repeated", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const grant = await newLocks(proxy).lock(KEY).acquire();
  await proxy.order("swallow");
  await assert.rejects(grant.release(), LockUnavailable);
  await proxy.order("speak");
  await server.waitUntilFree(KEY);
});

test("a reset in place of a reply is made up for", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  await (await locks.lock("warm").acquire()).release();
  for (const word of ["LOCK.ACQUIRE", "LOCK.FENCE", "LOCK.RELEASE"]) {
    await proxy.inject("reset", word);
    await locks.lock(KEY).run((grant) => grant.check());
  }
  assert.equal(await server.info(KEY), undefined);
});

test("a cancel and a grant at the same moment leave nothing", async () => {
  const server = await startServer();
  const lock = newLocks(server).lock(KEY);
  for (let round = 0; round < 30; round += 1) {
    const held = await lock.acquire();
    const abort = new AbortController();
    const wait = lock.acquire({ signal: abort.signal }).then((grant) => grant.release(), () => {});
    await server.waitForWaiters(KEY, 1);
    const releasing = held.release();
    if (round % 2) await new Promise(setImmediate);
    abort.abort();
    await Promise.all([releasing, wait]);
    await server.waitUntilFree(KEY);
  }
});

test("contenders of two programs take turns", async () => {
  const server = await startServer();
  const counts = [0, 0];
  let inside = 0;
  const contend = async (program: number): Promise<void> => {
    const lock = newLocks(server, { service: String(program) }).lock(KEY);
    for (const end = performance.now() + 1000; performance.now() < end;) {
      await lock.run(() => {
        inside += 1;
        assert.equal(inside, 1);
        counts[program] = (counts[program] ?? 0) + 1;
        inside -= 1;
      });
    }
  };
  await Promise.all([contend(0), contend(1)]);
  assert(Math.min(...counts) / Math.max(...counts) > 0.8, String(counts));
});

test("an operator's forced release is a loss, and the session goes on", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const grants: Grant[] = await Promise.all([locks.lock("a").acquire(), locks.lock("b").acquire()]);
  const [a, b] = grants;
  await server.redis.call("LOCK.RELEASE", "a", a?.owner ?? "", "ALL");
  await eventually(() => a?.lost, "the loss");
  assert.equal(a?.lost?.reason, "released");
  assert(b?.held);
  await b.release();
  await assert.rejects(locks.lock("b").run(() => server.redis.del("b")), LockLost);
});

test("a client that never connects is no hindrance, and a busy one neither", async () => {
  const server = await startServer();
  const client = createClient({ socket: { port: server.port } });
  await client.connect();
  void client.blPop("list", 0).catch(() => {});
  const locks = newLocks(client);
  await locks.lock(KEY).run(async () => assert.rejects(locks.lock(KEY).acquire({ wait: 20 }), LockBusy));
  client.destroy();
});
