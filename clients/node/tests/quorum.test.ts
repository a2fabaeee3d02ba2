/** One lock on five servers. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import {
  type Lock, LockBusy, LockLost, LockMisuse, LockRefused, LockUnavailable, type LocksOptions, QuorumLocks,
} from "../src/index.ts";
import { type Server, ends, eventually, startServer } from "./servers.ts";
import { KEY, clients, took } from "./support.ts";

/** A program's lock on these servers. */
function lockOn(servers: readonly Server[], options: LocksOptions = {}): Lock {
  const locks = new QuorumLocks(servers.map((server) => clients["ioredis"]?.(server) as Redis), { service: "test", ...options });
  ends.push(() => locks.close());
  return locks.lock(KEY);
}

async function start(options?: LocksOptions): Promise<{ five: Server[]; lock: Lock }> {
  const five = await Promise.all(Array.from({ length: 5 }, () => startServer()));
  return { five, lock: lockOn(five, options) };
}

async function tokens(servers: readonly Server[]): Promise<number[]> {
  const infos = await Promise.all(servers.map((server) => server.info(KEY)));
  return infos.flatMap((info) => (info ? [info["token"] as number] : []));
}

const free = (servers: readonly Server[]): Promise<unknown> =>
  eventually(async () => (await tokens(servers)).length === 0, "the lock to be free");

async function order(servers: readonly Server[], what: string): Promise<void> {
  for (const server of servers) await server.order(what);
}

test("all servers have one token, and it rises; what is held is not granted again", async () => {
  const { five, lock } = await start({ replyTimeout: 5000 });
  let last = 0;
  for (let i = 0; i < 5; i += 1) {
    const grant = await lock.acquire();
    await eventually(async () => new Set(await tokens(five)).size === 1, "one token");
    assert.deepEqual((await tokens(five)).slice(0, 3), [grant.token, grant.token, grant.token]);
    assert(grant.token > last && grant.held && grant.remaining > 1000 && grant.remaining <= 10_000);
    await grant.check();
    last = grant.token;
    assert.equal(await lock.tryAcquire(), undefined);
    await assert.rejects(lock.acquire({ wait: 300 }), LockBusy);
    await grant.release();
    await assert.rejects(grant.release(), LockMisuse);
    await free(five);
  }
});

for (const fault of ["kill", "pause"]) {
  test(`a majority is enough: ${fault}`, async () => {
    const { five, lock } = await start({ lease: 3000 });
    await order(five.slice(0, 2), fault);
    await lock.run(async (grant) => {
      assert.deepEqual(await tokens(five.slice(2)), [grant.token, grant.token, grant.token]);
      await pause(4000); // longer than the lease: each server renews
      assert(grant.held);
      await grant.extend(5000);
      await grant.check();
    }, { wait: 10_000 });
    await free(five.slice(2));
    if (fault === "kill") return;
    await order(five.slice(0, 2), "resume");
    await free(five);
  });

  test(`less is not: ${fault}`, async () => {
    const { five, lock } = await start();
    await order(five.slice(0, 3), fault);
    for (const wait of [0, 1000]) {
      const ms = await took(() => assert.rejects(lock.acquire({ wait }), (error) => error instanceof LockUnavailable
        && /server 1/.test(error.message) && (error.cause as AggregateError).errors.length === 5));
      assert(ms < wait + 3000, String(ms));
    }
    await free(five.slice(3));
  });
}

test("a minority is released", async () => {
  const { five, lock } = await start();
  for (const server of five.slice(0, 3)) await server.redis.call("LOCK.ACQUIRE", KEY, "other");
  await assert.rejects(lock.acquire({ wait: 0 }), LockBusy);
  await free(five.slice(3));
});

test("contenders take turns, with a server down", async () => {
  const { five } = await start();
  await five[1]?.order("kill");
  let inside = 0;
  const taken: number[] = [];
  const contend = async (): Promise<void> => {
    const lock = lockOn(five);
    for (let i = 0; i < 5; i += 1) {
      await lock.run((grant) => {
        inside += 1;
        assert.equal(inside, 1);
        taken.push(grant.token);
        inside -= 1;
      }, { wait: 60_000 });
    }
  };
  const ms = await took(() => Promise.all([contend(), contend(), contend()]));
  assert.equal(taken.length, 15);
  assert.deepEqual(taken, [...taken].sort((one, other) => one - other));
  assert(ms < 20_000, String(ms));
});

test("fewer than a majority is a loss", async () => {
  const told: LockLost[] = [];
  const { five, lock } = await start({ observer: { lost: (_, loss) => told.push(loss) } });
  const grant = await lock.acquire();
  grant.onLost((loss) => told.push(loss));
  await eventually(async () => (await tokens(five)).length === 5, "all five");
  const { signal } = grant;
  for (const server of five.slice(0, 2)) await server.redis.del(KEY);
  await pause(200);
  assert(grant.held);
  await five[2]?.redis.del(KEY);
  await eventually(() => told.length === 2, "the notices");
  assert(signal.aborted && !grant.held);
  assert.match(grant.lost?.message ?? "", /deleted/);
  for (const call of [grant.check(), grant.release()]) await assert.rejects(call, LockLost);
  await free(five); // the rest is given up
});

test("a cancelled wait leaves nothing", async () => {
  const { five, lock } = await start();
  const grant = await lock.acquire();
  const abort = new AbortController();
  const wait = lock.acquire({ signal: abort.signal });
  await eventually(async () => (await five[0]?.waiters(KEY))?.length, "the wait");
  abort.abort();
  await assert.rejects(wait, { name: "AbortError" });
  await eventually(async () => (await five[0]?.waiters(KEY))?.length === 0, "an empty line");
  await grant.release();
  await free(five);
});

test("a server whose clock is behind is left out, and too many are refused", async () => {
  const { five, lock } = await start();
  const ahead = async (server: Server | undefined): Promise<void> => {
    await server?.redis.config("SET", "lock.max-token-lead-ms", "86400000");
    const [token] = (await server?.redis.call("LOCK.ACQUIRE", "ahead", "o")) as [number];
    await server?.redis.call("LOCK.RENEW", "ahead", "o", "TOKEN", token, "RAISE", token + 60_000_000);
  };
  await ahead(five[0]);
  await lock.run(async () => { assert((await tokens(five)).length >= 3); });
  await free(five);
  await ahead(five[1]);
  await ahead(five[2]);
  for (const server of five.slice(3)) await server.order("kill");
  await free(five.slice(0, 3));
  await lock.run((grant) => grant.check());
  await five[0]?.order("kill");
  await assert.rejects(lock.acquire({ wait: 500 }), LockUnavailable);
});

test("misuse", async () => {
  const two = [new Redis({ lazyConnect: true }), new Redis({ lazyConnect: true })];
  assert.throws(() => new QuorumLocks(two), LockMisuse);
  const { five, lock } = await start();
  for (const server of five) await server.redis.call("ACL", "SETUSER", "default", "-lock.acquire");
  await assert.rejects(lock.acquire(), LockRefused);
});
