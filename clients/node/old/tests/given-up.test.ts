/** What was given up, or told as lost, does not stay with the server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createClient } from "@redis/client";
import { LockBusy, LockMisuse, LockRefused, LockUnavailable, Locks } from "../src/index.ts";
import { eventually, startProxy, startServer } from "./servers.ts";
import { KEY, Pending, newLocks, took } from "./support.ts";

test("an adoption that was given up keeps nothing", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const [token] = (await server.redis.call("LOCK.ACQUIRE", KEY, "other", "EX", 60)) as [number];
  await locks.lock("warm").run(() => {});
  await proxy.inject({ delay: 400 }, "LOCK.RENEW");
  await assert.rejects(locks.adopt(KEY, "other", token, { signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  await eventually(async () => (await server.calls("lock.renew")) === 2, "two renewals");
  const [holder] = await server.holders(KEY);
  assert.equal(holder?.["owner"], "other");
  assert.equal(holder?.["kept-by"], 0);
});

test("a wait whose grant was lost on its way, and that is called off before the next one, leaves nothing", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const first = await newLocks(server).lock(KEY).acquire();
  const abort = new AbortController();
  // The pauses between waits grow.
  await proxy.order("inject", { fault: "reset-request", words: "BLOCK", times: 6 });
  const off = Pending.of(newLocks(proxy).lock(KEY, { wait: 60_000, lease: 60_000 }), abort.signal);
  await eventually(async () => (await proxy.order("lost"))["pending"] === 0, "six waits to fail");
  await proxy.inject("cut", "BLOCK");
  await server.waitForWaiters(KEY, 1);
  await first.release();
  await eventually(async () => (await proxy.order("lost"))["pending"] === 0, "the grant to be lost");
  abort.abort();
  await assert.rejects(off.over, { name: "AbortError" });
  await server.waitUntilFree(KEY, 3000);
});

test("a grant whose acknowledgement is refused is given back", async () => {
  const server = await startServer();
  await server.redis.call("ACL", "SETUSER", "app", "on", ">x", "~*", "+@all", "-wait");
  const locks = newLocks(server, { redis: { username: "app", password: "x" } });
  for (const owner of [undefined, "user:7"]) {
    await assert.rejects(locks.lock(KEY, { replicas: 1, owner }).acquire(), LockRefused);
    assert.equal(await server.info(KEY), undefined);
  }
});

test("a loss that no server told is given back", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy, { replyTimeout: 4000 });
  const grant = await locks.lock(KEY, { lease: 1000 }).acquire();
  await proxy.inject({ delay: 3000 }, "LOCK.RENEW");
  const keptBy = (await server.holders(KEY))[0]?.["kept-by"] as number;
  await server.redis.call("CLIENT", "KILL", "ID", keptBy);
  await eventually(() => !grant.held, "a loss");
  await server.waitUntilFree(KEY);
});

for (const owner of [undefined, "user:7"]) {
  test(`what ${owner ? "a named owner" : "a fresh owner"} may not release is kept for nobody`, async () => {
    const server = await startServer();
    const proxy = await startProxy(server);
    await server.redis.call("ACL", "SETUSER", "app", "on", ">x", "~*", "+@all", "-lock.release");
    const locks = newLocks(proxy, { redis: { username: "app", password: "x" } });
    const lock = locks.lock(KEY, { lease: 1000, owner });
    const beside = await locks.lock("beside").acquire();
    await assert.rejects((await lock.acquire()).release(), LockRefused);
    await server.waitUntilFree(KEY, 3000);
    await proxy.inject({ delay: 300 }, "LOCK.ACQUIRE");
    const abort = new AbortController();
    const off = Pending.of(lock, abort.signal);
    await eventually(() => server.info(KEY), "the grant");
    abort.abort();
    await assert.rejects(off.over, { name: "AbortError" });
    await server.waitUntilFree(KEY, 3000);
    const most = await locks.lock(KEY, { lease: 1000, atMost: 1500, owner }).acquire();
    await server.redis.call("ACL", "SETUSER", "app", "-lock.renew");
    await eventually(() => !most.held, "its end");
    await server.waitUntilFree(KEY, 3000);
    await server.redis.call("ACL", "SETUSER", "app", "+@all");
    await beside.check();
    await beside.release();
  });
}

test("a task waits no longer than its time", async () => {
  const server = await startServer();
  await server.redis.call("LOCK.ACQUIRE", KEY, "other", "EX", 60);
  const task = newLocks(server).task();
  const first = assert.rejects(task.lock(KEY, { wait: 1000 }).acquire(), LockBusy);
  await server.waitForWaiters(KEY, 1);
  const ms = await took(() => assert.rejects(task.lock(KEY, { wait: 1000 }).acquire(), LockBusy));
  assert(ms < 1500, String(ms));
  await first;
});

test("a task's try behind another one at a server that hangs takes no longer than its time", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  await locks.lock("warm").run(() => {});
  const task = locks.task();
  await server.order("pause");
  const first = assert.rejects(task.lock(KEY).acquire(), LockUnavailable);
  await pause(600);
  const ms = await took(() => assert.rejects(task.lock(KEY).acquire(), LockUnavailable));
  assert(ms < 1250, String(ms));
  await first;
  await server.order("resume");
});

test("a leader whose release is not answered leads again", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  const stop = new AbortController();
  let terms = 0;
  const leading = locks.lead(KEY, { signal: stop.signal, lease: 2000 }, async () => {
    terms += 1;
    if (terms === 1) {
      await proxy.order("silence");
      setTimeout(() => void proxy.order("speak"), 4000);
    } else {
      await pause(10_000, undefined, { signal: stop.signal });
    }
  });
  await eventually(() => terms === 2, "another term", 20_000);
  stop.abort();
  await leading;
});

test("what a leader's work throws ends the leading, be it a loss of something else", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const other = await locks.lock("other").acquire();
  await server.redis.del("other");
  const loss: unknown = await new Promise((resolve) => void other.onLost(resolve));
  const leading = locks.lead(KEY, { signal: new AbortController().signal }, () => { throw loss; });
  await assert.rejects(leading, (error) => error === loss && !(error instanceof LockMisuse));
});

test("a refusal after a lost answer leaves no lock behind", async () => {
  const server = await startServer();
  const proxy = await startProxy(server);
  const locks = newLocks(proxy);
  for (const kept of [{ fixed: true }, {}, { owner: "user:7" }]) {
    await server.redis.config("SET", "maxmemory", "0");
    await locks.lock("warm").run(() => {});
    await proxy.inject("cut", "LOCK.ACQUIRE");
    const taking = Pending.of(locks.lock(KEY, { lease: 60_000, ...kept }));
    await eventually(() => server.info(KEY), "the grant");
    await server.redis.config("SET", "maxmemory", "1");
    await assert.rejects(taking.over, LockRefused);
    await server.waitUntilFree(KEY, 3000);
  }
});

test("what is granted while the locks close is not held", async () => {
  const server = await startServer();
  for (let steps = 0; steps < 40; steps += 1) {
    const locks: Locks = new Locks(() => {
      const client = createClient({ socket: { port: server.port, reconnectStrategy: false } });
      const send = client.sendCommand.bind(client);
      return Object.assign(client, { sendCommand: (words: string[]) => {
        const reply = send(words);
        if (words[0] === "LOCK.ACQUIRE") void reply.then(async () => {
          for (let step = 0; step < steps; step += 1) await undefined;
          void locks.close();
        });
        return reply;
      } }) as unknown as ReturnType<typeof createClient>;
    }, { service: "test" });
    const grant = await locks.lock(KEY).acquire().catch(() => undefined);
    await locks.close();
    assert(!grant?.held, `after ${steps} steps`);
    assert.equal(await server.info(KEY), undefined);
  }
});

test("a release behind another call of its owner takes no longer than its time", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const grant = await task.lock(KEY).acquire();
  await server.order("pause");
  const again = Pending.of(task.lock(KEY, { wait: 6000 }));
  const ms = await took(() => assert.rejects(grant.release(), LockUnavailable));
  assert(ms < 2600, String(ms));
  await server.order("resume");
  await (await again.granted()).release();
  await server.waitUntilFree(KEY, 15_000);
});
