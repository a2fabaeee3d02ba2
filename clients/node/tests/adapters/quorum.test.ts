/** A lock on five servers, while nothing fails. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createClient } from "@redis/client";
import { type Grant, LockBusy, LockLost, LockMisuse, QuorumLocks, type Vote } from "redis-lock-client";
import { Place, ends, eventually } from "../servers.ts";
import { Five, KEY, newRedis } from "./five.ts";

test("all servers have one token, and it rises from holder to holder", async () => {
  const five = await Five.start();
  const clients = [five.locks(), five.locks()];
  let last = 0;
  for (let turn = 0; turn < 20; turn += 1) {
    const grant = await five.hold(clients[turn % 2] as QuorumLocks);
    assert(grant.token > last);
    last = grant.token;
    assert(grant.held && grant.remaining > 8000 && grant.remaining <= 9898, String(grant.remaining));
    await grant.check();
    await grant.release();
    assert(!grant.held);
    await five.waitUntilFree();
  }
});

test("what is held is not granted again, and a minority's grants are given back", async () => {
  const five = await Five.start();
  const locks = five.locks();
  const grant = await five.hold(locks);
  assert.equal(await locks.lock(KEY).tryAcquire(), undefined);
  await assert.rejects(five.locks().lock(KEY, { wait: 300 }).acquire(), LockBusy);
  await grant.check();
  await grant.release();
  for (const server of five.servers.slice(0, 3)) await server.redis.call("LOCK.ACQUIRE", KEY, "other");
  await assert.rejects(locks.lock(KEY).acquire(), LockBusy);
  assert.deepEqual(await five.grants(five.servers.slice(3)), []);
});

test("it is renewed for as long as it is held, a fixed lease is not, and no more than at most", async () => {
  const five = await Five.start();
  const locks = five.locks();
  const kept = await locks.lock(KEY, { lease: 900 }).acquire();
  const fixed = await locks.lock("fixed", { lease: 900, fixed: true }).acquire();
  const atMost = await locks.lock("at most", { lease: 900, atMost: 1500 }).acquire();
  await pause(1200);
  assert(kept.held && atMost.held && !fixed.held);
  await eventually(() => !atMost.held, "the end", 1500);
  await assert.rejects(fixed.release(), LockLost);
  await pause(1000);
  await kept.check();
  await five.waitUntilFree(five.servers, "fixed");
  await five.waitUntilFree(five.servers, "at most");
  await kept.extend(20_000);
  assert(kept.remaining > 15_000);
  await kept.extend(300, { fixed: true });
  await eventually(() => kept.signal.aborted, "the end", 1500);
  await five.waitUntilFree();
});

test("contenders take turns: one inside at a time, and each with a higher token", async () => {
  const five = await Five.start();
  let inside = 0, last = 0, turns = 0;
  const contenders = Array.from({ length: 8 }, async () => {
    const lock = five.locks().lock(KEY, { wait: 60_000 });
    for (let turn = 0; turn < 4; turn += 1) {
      await lock.run(async ({ token }) => {
        inside += 1;
        assert.equal(inside, 1);
        assert(token > last, `${token} after ${last}`);
        last = token;
        await pause(1);
        inside -= 1;
        turns += 1;
      });
    }
  });
  await Promise.all(contenders);
  assert.equal(turns, 32);
  await five.waitUntilFree();
});

test("who waits stands in the line of the first server, with a fresh owner for each attempt, and can be called off", async () => {
  const five = await Five.start();
  const grant = await five.hold(five.locks());
  const abort = new AbortController();
  const waiting = five.locks().lock(KEY, { wait: Infinity, signal: abort.signal }).acquire();
  const called = assert.rejects(waiting, { name: "AbortError" });
  const next = five.locks().lock(KEY, { wait: Infinity }).acquire();
  await five.at(0).waitForWaiters(KEY, 2);
  const first = new Set((await five.at(0).waiters(KEY)).map(({ owner }) => owner));
  await eventually(async () => (await five.at(0).waiters(KEY)).some(({ owner }) => !first.has(owner)), "another attempt");
  abort.abort();
  await called;
  await eventually(async () => (await five.at(0).waiters(KEY)).length <= 1, "it to have left the line");
  await grant.release();
  const second = await next;
  assert(second.token > grant.token);
  await second.release();
  await five.waitUntilFree();
});

test("one server that is not free is not waited for", async () => {
  const five = await Five.start();
  await five.at(0).redis.call("LOCK.ACQUIRE", KEY, "other", "EX", 60);
  const grant = await five.locks().lock(KEY).acquire();
  const next = five.locks().lock(KEY, { wait: 20_000 }).acquire();
  await five.at(0).waitForWaiters(KEY, 1);
  await grant.release();
  await (await next).release();
});

test("a lock that is let go of is adopted by another client", async () => {
  const five = await Five.start();
  const grant = await five.hold(five.locks());
  await grant.detach();
  const adopted = await five.locks().adopt(KEY, grant.owner, grant.token);
  assert.equal(adopted.token, grant.token);
  await adopted.release();
  await five.waitUntilFree();
  await assert.rejects(five.locks().adopt(KEY, grant.owner, grant.token), LockLost);
});

test("what is held here is adopted as one more hold", async () => {
  const five = await Five.start();
  const locks = five.locks();
  const first = await five.hold(locks);
  const adopted = await locks.adopt(KEY, first.owner, first.token);
  assert.equal(adopted.holds, 2);
  await assert.rejects(first.detach(), LockMisuse);
  await first.release();
  assert(adopted.held && !first.held);
  await adopted.check();
  await adopted.release();
  await five.waitUntilFree();
});

test("several at once, or none; and one leads at a time", async () => {
  const five = await Five.start();
  const locks = five.locks();
  await locks.all(["b", "a", "b"], { wait: 1000 }, async (grants: readonly Grant[]) => {
    assert.deepEqual(grants.map(({ key }) => key), ["a", "b"]);
    await assert.rejects(five.locks().all(["0", "b"], {}, () => assert.fail()), LockBusy);
    await five.waitUntilFree(five.servers, "0");
  });
  await five.waitUntilFree(five.servers, "a");
  const stop = new AbortController();
  let leaders = 0;
  const lead = locks.lead(KEY, { signal: stop.signal }, async () => {
    leaders += 1;
    if (leaders === 2) stop.abort();
  });
  await lead;
  assert.equal(leaders, 2);
});

test("a loss of a majority is told at once, by all ways; a minority's is none", async () => {
  const five = await Five.start();
  const grant = await five.hold(five.locks(), { lease: 1500 });
  let told: unknown;
  grant.onLost((loss) => { told = loss; });
  for (const server of five.servers.slice(0, 2)) await server.redis.del(KEY);
  await grant.check();
  assert.equal((await five.grants()).length, 3, "none is taken again");
  await five.at(2).redis.del(KEY);
  await five.at(2).redis.call("LOCK.ACQUIRE", KEY, "other");
  await eventually(() => grant.signal.aborted, "the loss");
  assert(told instanceof LockLost && /NOTOWNER/.test(told.message), String(told));
  assert.equal(grant.signal.reason, told);
  await assert.rejects(grant.check(), LockLost);
  await assert.rejects(grant.release(), LockLost);
  await five.waitUntilFree([...five.servers.slice(0, 2), ...five.servers.slice(3)]);
});

test("what is no quorum, or no lock of one, is refused", async () => {
  const places = [1, 2, 3, 4].map((port) => new Place(port));
  const clients = places.map((place) => newRedis(place, { lazyConnect: true }));
  for (const some of [[], clients.slice(0, 1), clients.slice(0, 2), clients, [...clients.slice(0, 2), clients[0]]]) {
    assert.throws(() => new QuorumLocks(some as typeof clients), LockMisuse);
  }
  const again = newRedis(new Place(1), { lazyConnect: true });
  assert.throws(() => new QuorumLocks([...clients.slice(0, 2), again]), LockMisuse);
  const locks = new QuorumLocks(clients.slice(0, 3));
  ends.push(() => locks.close());
  for (const options of [{ owner: "me" }, { replicas: 1 }, { keep: 5000 }]) {
    assert.throws(() => locks.lock(KEY, options as object), LockMisuse);
  }
});

test("the votes of the servers are told", async () => {
  const five = await Five.start();
  await five.at(4).redis.call("LOCK.ACQUIRE", KEY, "other");
  await five.at(3).redis.set(KEY, "text");
  const votes: Promise<readonly Vote[]>[] = [];
  const grant = await five.locks().lock(KEY, { onVotes: (it) => { votes.push(it); } }).acquire();
  const [last] = (await Promise.all(votes)).slice(-1);
  assert.deepEqual(last?.map(({ server, error }) => [server, error?.name]),
    [[0, undefined], [1, undefined], [2, undefined], [3, "LockMisuse"], [4, "LockBusy"]]);
  await assert.rejects(grant.downgrade(), LockMisuse);
  await grant.release();
});

test("a refusal by a majority is told at once, and by which server", async () => {
  const five = await Five.start();
  for (const server of five.servers.slice(2)) await server.redis.set(KEY, "text");
  await assert.rejects(five.locks().lock(KEY, { wait: 60_000 }).acquire(), (error) =>
    error instanceof LockMisuse && /WRONGTYPE.*\(127\.0\.0\.1:\d+\)$/.test(error.message));
});

test("close gives everything back, and calls everything off", async () => {
  const five = await Five.start();
  const locks = five.locks();
  const foreign = await five.hold(five.locks());
  const grant = await locks.lock("own").acquire();
  const waiting = assert.rejects(locks.lock(KEY, { wait: Infinity }).acquire(), { name: "AbortError" });
  await five.at(0).waitForWaiters(KEY, 1);
  await locks.close();
  await waiting;
  assert(grant.signal.aborted);
  await five.waitUntilFree(five.servers, "own");
  await five.at(0).waitForWaiters(KEY, 0);
  await foreign.check();
  await assert.rejects(locks.lock(KEY).acquire(), LockMisuse);
});

test("on node-redis, too", async () => {
  const five = await Five.start();
  const clients = await Promise.all(five.servers.map(async ({ port }) => {
    const client = createClient({ socket: { port, host: "127.0.0.1" }, RESP: 3 });
    client.on("error", () => {});
    await client.connect();
    ends.push(() => client.destroy());
    return client;
  }));
  const locks = new QuorumLocks(clients as unknown as ConstructorParameters<typeof QuorumLocks>[0]);
  ends.push(() => locks.close());
  await using grant = await five.hold(locks);
  await grant.check();
  await grant.release();
  await five.waitUntilFree();
});
