/** A lock on five servers, some of which are killed, hang, forget, lose replies, or have another time. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockBusy, LockLost, LockRefused, LockUnavailable } from "redis-lock-client";
import { type Server, eventually, startProxy } from "../servers.ts";
import { Five, KEY } from "./five.ts";

const HOUR = 3_600_000_000;

async function took(what: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await what();
  return performance.now() - began;
}

for (const down of [1, 2]) {
  test(`with ${down} of five killed, a majority is enough`, async () => {
    const five = await Five.start();
    for (const server of five.servers.slice(0, down)) await server.order("kill");
    const up = five.servers.slice(down);
    const grant = await five.hold(five.locks(), {}, up);
    await grant.check();
    await grant.release();
    await five.waitUntilFree(up);
  });
}

test("fewer are an error that names each server, in time, and leave nothing", async () => {
  const five = await Five.start();
  for (const server of five.servers.slice(0, 3)) await server.order("kill");
  const locks = five.locks();
  for (const wait of [0, 400]) {
    const ms = await took(() => assert.rejects(locks.lock(KEY, { wait }).acquire(), (error) =>
      error instanceof LockUnavailable && error.message.includes("2 of 5 servers")
        && five.servers.slice(0, 3).every(({ port }) => error.message.includes(`127.0.0.1:${port}: `))));
    assert(ms < 2500, String(ms));
  }
  await five.waitUntilFree(five.servers.slice(3));
});

test("servers that are back in time are enough, and used again, and told of the releases that they missed", async () => {
  const five = await Five.start({ appendonly: "yes", appendfsync: "always" });
  const { locks, told } = five.told();
  const before = await five.hold(locks, { lease: 60_000 });
  for (const server of five.servers.slice(0, 3)) await server.order("kill");
  await assert.rejects(before.release(), LockUnavailable);
  const waiting = locks.lock(KEY, { wait: 60_000 }).acquire();
  await five.at(0).order("restart");
  await (await waiting).release();
  await five.at(1).order("restart");
  await five.at(2).order("restart");
  await eventually(() => ["server-down", "server-back"].every((type) => told.filter((it) => it.type === type).length >= 3), "all three");
  await five.waitUntilFree();
  await (await five.hold(locks)).release();
});

test("servers that hang keep nobody waiting", async () => {
  const five = await Five.start();
  const locks = five.locks();
  await (await five.hold(locks)).release();
  for (const server of five.servers.slice(0, 2)) await server.order("pause");
  const ms = await took(async () => {
    for (let round = 0; round < 10; round += 1) {
      const grant = await locks.lock(KEY, { wait: 5000 }).acquire();
      await grant.check();
      await grant.release();
    }
  });
  assert(ms < 4000, `${ms} ms: a time-out each would be 10,000`);
  for (const server of five.servers.slice(0, 2)) await server.order("resume");
  await five.waitUntilFree();
  await (await five.hold(locks)).release();
});

test("it is renewed without a minority that hangs, and lost in time without a majority", async () => {
  const five = await Five.start();
  const lease = 1500;
  const grant = await five.hold(five.locks(), { lease });
  for (const server of five.servers.slice(0, 2)) await server.order("pause");
  await pause(2 * lease);
  await grant.check();
  await five.at(2).order("pause");
  const ms = await took(async () => { await eventually(() => grant.signal.aborted, "the loss"); });
  assert(ms < lease + 1000, String(ms));
  assert.equal(grant.remaining, 0);
  for (const server of five.servers.slice(0, 3)) await server.order("resume");
  await five.waitUntilFree();
});

test("a shorter lease whose answers are lost is what is known of it", async () => {
  const five = await Five.start();
  const proxies = await Promise.all(five.servers.map(startProxy));
  const locks = five.locks({}, proxies);
  const fixed = await locks.lock("fixed", { fixed: true, lease: 60_000 }).acquire();
  const kept = await locks.lock(KEY, { lease: 60_000 }).acquire();
  for (const proxy of proxies) await proxy.order("silence");
  const calls = [fixed.extend(4000), kept.extend(4000)].map((call) => assert.rejects(call, LockUnavailable));
  await Promise.all(calls);
  for (const proxy of proxies) await proxy.order("speak");
  await eventually(() => !fixed.held, "the loss", 4000);
  await eventually(() => kept.remaining > 20_000, "a renewal", 1000);
  await five.waitUntilFree(five.servers, "fixed");
  await kept.release();
});

test("servers restarted without their data end it when they are a majority", async () => {
  const five = await Five.start();
  const grant = await five.hold(five.locks(), { lease: 3000 });
  const forget = async (server: Server): Promise<void> => {
    await server.order("kill");
    await server.order("restart");
    await eventually(async () => (await server.redis.ping()) === "PONG", "the server");
  };
  await forget(five.at(0));
  await forget(five.at(1));
  await grant.check();
  assert(grant.held);
  assert.equal((await five.grants()).length, 3, "none is taken again");
  await forget(five.at(2));
  await eventually(() => grant.signal.aborted, "the loss");
  assert.match(String(grant.signal.reason), /NOTHELD/);
  await assert.rejects(grant.release(), LockLost);
  await five.waitUntilFree();
});

test("a grant that comes late is released", async () => {
  const five = await Five.start();
  const locks = five.locks();
  await (await five.hold(locks)).release();
  await five.waitUntilFree();
  const late = five.at(4);
  const before = await late.calls("lock.acquire");
  await late.order("pause");
  const grant = await locks.lock(KEY).acquire();
  await grant.release();
  await late.order("resume");
  await eventually(async () => (await late.calls("lock.acquire")) > before, "the late request");
  await five.waitUntilFree();
});

test("a holder that is gone is waited for until its lease ends", async () => {
  const five = await Five.start();
  const gone = await five.hold(five.locks(), { lease: 1000, fixed: true });
  await gone.detach();
  const ms = await took(async () => {
    const next = await five.locks().lock(KEY, { wait: 20_000 }).acquire();
    assert(next.token > gone.token);
    await next.release();
  });
  assert(ms < 3000, String(ms));
});

for (const word of ["LOCK.ACQUIRE", "LOCK.RENEW", "LOCK.RELEASE"]) {
  test(`lost replies to ${word} are not counted twice`, async () => {
    const five = await Five.start();
    const proxies = await Promise.all(five.servers.map(startProxy));
    const locks = five.locks({}, proxies);
    await (await five.hold(locks)).release();
    await five.waitUntilFree();
    for (const proxy of proxies) await proxy.inject("cut", word);
    const grant = await locks.lock(KEY, { wait: 5000 }).acquire();
    for (const info of await Promise.all(five.servers.map((server) => server.info(KEY)))) {
      if (info) assert.equal(info["holds"], 1);
    }
    await grant.check();
    await grant.release();
    await five.waitUntilFree();
    const lost = await Promise.all(proxies.map(async (proxy) => (await proxy.order("lost"))["lost"]));
    assert(lost.reduce((sum, it) => sum + it, 0) >= 3, String(lost));
  });
}

for (const word of ["LOCK.ACQUIRE", "LOCK.RENEW"]) {
  test(`an acquire that is called off while ${word} is under way leaves nothing`, async () => {
    const five = await Five.start();
    const proxies = await Promise.all(five.servers.map(startProxy));
    const locks = five.locks({}, proxies);
    await (await five.hold(locks)).release();
    await five.waitUntilFree();
    const calls = (): Promise<number[]> => Promise.all(five.servers.map((server) => server.calls(word.toLowerCase())));
    const before = await calls();
    for (const proxy of proxies) await proxy.inject({ delay: 400 }, word);
    const abort = new AbortController();
    const called = assert.rejects(locks.lock(KEY, { signal: abort.signal }).acquire(), { name: "AbortError" });
    await eventually(async () => (await calls()).filter((it, at) => it > (before[at] ?? 0)).length >= 3, "the requests to a majority");
    abort.abort();
    const ms = await took(() => called);
    assert(ms < 1500, String(ms));
    await five.waitUntilFree();
  });
}

test("a turn in a line that ends with its server is left for the next server's", async () => {
  const five = await Five.start();
  const grant = await five.hold(five.locks());
  const next = five.locks().lock(KEY, { wait: 60_000 }).acquire();
  await five.at(0).waitForWaiters(KEY, 1);
  await five.at(0).order("kill");
  await five.at(1).waitForWaiters(KEY, 1);
  await grant.release();
  await (await next).release();
});

/** Makes the server grant tokens that lie so far ahead of time. */
async function putAhead(server: Server, micros: number, isBelieved = false): Promise<void> {
  await server.redis.config("SET", "lock.max-token-lead-ms", "86400000");
  const [token] = (await server.redis.call("LOCK.ACQUIRE", "x", "me")) as number[];
  await server.redis.call("LOCK.RENEW", "x", "me", "TOKEN", token ?? 0, "RAISE", (token ?? 0) + micros);
  await server.redis.call("LOCK.RELEASE", "x", "me");
  if (!isBelieved) await server.redis.config("SET", "lock.max-token-lead-ms", "5000");
}

const isOfNow = (token: number): boolean => token < Date.now() * 1000 + HOUR / 2;

test("servers far ahead of time are left out while they are a minority, and followed as a majority", async () => {
  const five = await Five.start();
  for (const ahead of [1, 2]) {
    await putAhead(five.at(ahead - 1), ahead * HOUR);
    const grant = await five.locks().lock(KEY, { wait: 5000 }).acquire();
    assert(isOfNow(grant.token), String(grant.token));
    await five.waitUntilFree(five.servers.slice(0, ahead));
    await grant.check();
    await grant.release();
    await five.waitUntilFree();
  }
  for (const server of five.servers.slice(0, 3)) await putAhead(server, 3 * HOUR, true);
  const grant = await five.locks().lock(KEY, { wait: 5000 }).acquire();
  assert(!isOfNow(grant.token), String(grant.token));
  await five.waitUntilFree(five.servers.slice(3));
  await grant.release();
});

test("two that do not go with the first of three are a majority with those that answer later", async () => {
  const five = await Five.start();
  await putAhead(five.at(0), HOUR);
  for (const slow of five.servers.slice(3)) await slow.redis.call("CLIENT", "PAUSE", "300", "ALL");
  const grant = await five.locks().lock(KEY).acquire();
  assert(isOfNow(grant.token), String(grant.token));
  await five.waitUntilFree(five.servers.slice(0, 1));
  await grant.release();
  await five.waitUntilFree();
});

test("where clocks leave no majority, the servers are named", async () => {
  const five = await Five.start();
  await five.at(4).order("kill");
  await putAhead(five.at(0), HOUR);
  await putAhead(five.at(1), HOUR);
  await assert.rejects(five.locks().lock(KEY).acquire(), (error) => error instanceof LockRefused && /AHEAD/.test(error.message)
    && [2, 3].every((place) => error.message.includes(`127.0.0.1:${five.at(place).port}`)));
  await five.waitUntilFree(five.servers.slice(0, 4));
});

test("a majority that may have it still is no loss", async () => {
  const five = await Five.start();
  const grant = await five.hold(five.locks());
  for (const server of five.servers.slice(0, 2)) await server.redis.del(KEY);
  await five.at(2).order("pause");
  await assert.rejects(grant.check(), LockUnavailable);
  await five.at(2).order("resume");
  await eventually(() => grant.check().then(() => true, () => false), "it to answer");
  assert(grant.held);
  await grant.release();
});

test("an acquire that does not wait, and a release, end in time while all servers hang, and tell it", async () => {
  const five = await Five.start();
  const locks = five.locks(), cold = five.locks();
  const grant = await five.hold(locks, { lease: 60_000 });
  for (const server of five.servers) await server.order("pause");
  for (const it of [cold, locks]) {
    const ms = await took(() => assert.rejects(it.lock(KEY, { lease: 60_000 }).acquire(), LockUnavailable));
    assert(ms < 1400, String(ms));
  }
  const ms = await took(() => assert.rejects(grant.release(), LockUnavailable));
  assert(ms < 2800, String(ms));
  for (const server of five.servers) await server.order("resume");
  await five.waitUntilFree();
});

test("close is bounded while servers hang", async () => {
  const five = await Five.start();
  const locks = five.locks();
  const grant = await five.hold(locks);
  for (const server of five.servers.slice(0, 3)) await server.order("pause");
  const ms = await took(() => locks.close());
  assert(ms < 3000, String(ms));
  assert(!grant.held);
  for (const server of five.servers.slice(0, 3)) await server.order("resume");
  await assert.rejects(five.locks().lock(KEY, { wait: 20_000 }).run(() => { throw new LockBusy("mine"); }), LockBusy);
});

test("a lock is busy only where a majority has answered", async () => {
  const five = await Five.start();
  const locks = five.locks();
  await (await five.hold(locks)).release();
  await five.at(0).redis.call("LOCK.ACQUIRE", KEY, "other", "EX", 60);
  for (const place of [2, 3]) await five.at(place).order("kill");
  await five.at(4).order("pause");
  await assert.rejects(locks.lock(KEY).acquire(), LockUnavailable);
});

test("of renewals beside each other the last one counts on all servers", async () => {
  const five = await Five.start();
  const proxies = await Promise.all(five.servers.map((server) => startProxy(server)));
  const grant = await five.hold(five.locks({ replyTimeout: 5000 }, proxies), { lease: 30_000 });
  for (const proxy of proxies.slice(0, 3)) await proxy.inject("reset-request", "LOCK.RENEW");
  await Promise.all([grant.check(), grant.extend(60_000)]);
  assert(grant.remaining > 50_000, String(grant.remaining));
  const isLong = async (server: Server): Promise<boolean> => (await server.info(KEY))?.["lease-ms"] === 60_000;
  for (const server of five.servers) await eventually(() => isLong(server), "the lease", 2000);
  await grant.release();
});

test("what the attempt still has to lift does not come behind a renewal", async () => {
  const five = await Five.start();
  const proxies = await Promise.all(five.servers.slice(3).map((server) => startProxy(server)));
  const locks = five.locks({ replyTimeout: 5000 }, [...five.servers.slice(0, 3), ...proxies]);
  for (const proxy of proxies) await proxy.inject("reset", "LOCK.RENEW");
  const grant = await locks.lock(KEY, { lease: 30_000 }).acquire();
  await grant.extend(60_000);
  const renewed = new Set<Server>();
  for (const end = performance.now() + 500; performance.now() < end;) {
    for (const server of five.servers) {
      const info = await server.info(KEY);
      if (info?.["token"] === grant.token && info["lease-ms"] === 60_000) renewed.add(server);
      else assert(!renewed.has(server), JSON.stringify(info));
    }
  }
  await grant.release();
  await five.waitUntilFree();
});
