/** The API on a real server, with ioredis and with node-redis. */

import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import {
  type Grant, LockBusy, LockDeadlock, LockLost, LockMisuse, LockNotAlone, LockRefused, Locks, type Observer,
} from "../src/index.ts";
import { eventually, startServer } from "./servers.ts";
import { KEY, clients, newLocks, took } from "./support.ts";

for (const [library, clientOf] of Object.entries(clients)) {
  describe(library, () => {
    test("a grant", async () => {
      const server = await startServer();
      const locks = newLocks(clientOf(server), { lease: 2000 });
      const grant = await locks.lock(KEY).acquire();
      const info = await server.info(KEY);
      assert.deepEqual([grant.key, grant.token, grant.owner], [KEY, info?.["token"], info?.["owner"]]);
      assert.match(grant.owner, /^test:/);
      assert(grant.held && grant.remaining > 0 && grant.remaining <= 2000);
      await grant.check();
      await pause(2500); // longer than the lease
      assert(grant.held);
      await grant.release();
      assert.deepEqual([grant.held, grant.lost, await server.info(KEY)], [false, undefined, undefined]);
      await assert.rejects(grant.release(), LockMisuse);
    });

    test("waiting", async () => {
      const server = await startServer();
      const lock = newLocks(clientOf(server)).lock(KEY);
      let held = await lock.acquire();
      assert.equal(await lock.tryAcquire(), undefined);
      const ms = await took(() => assert.rejects(lock.acquire({ wait: 300 }), LockBusy));
      assert(ms > 250 && ms < 3000, String(ms));
      const order: number[] = [];
      const waits: Promise<Grant>[] = [];
      for (let i = 0; i < 3; i += 1) {
        waits.push(lock.acquire().then((grant) => { order.push(i); return grant; }));
        await server.waitForWaiters(KEY, i + 1);
      }
      for (const wait of waits) {
        await held.release();
        const { token } = held;
        held = await wait;
        assert(held.token > token);
      }
      await held.release();
      assert.deepEqual(order, [0, 1, 2]);
    });

    test("a loss", async () => {
      const server = await startServer();
      const locks = newLocks(clientOf(server));
      const told: LockLost[] = [];
      const grant = await locks.lock(KEY).acquire();
      grant.onLost((loss) => told.push(loss));
      const { signal } = grant;
      grant.onLost((loss) => told.push(loss));
      grant.onLost(() => { throw new Error("of the program"); });
      await server.redis.del(KEY);
      await eventually(() => told.length === 2, "the notices");
      assert.equal(grant.lost?.reason, "deleted");
      assert(signal.aborted && signal.reason === grant.lost && !grant.held);
      assert(grant.signal.aborted);
      grant.onLost((loss) => told.push(loss));
      await eventually(() => told.length === 3, "the notice of a loss before");
      for (const call of [grant.check(), grant.extend(5000), grant.release()]) {
        await assert.rejects(call, (error) => error instanceof LockLost && error.reason === "deleted" && error.key === KEY);
      }
    });

    test("a cancelled wait leaves no place", async () => {
      const server = await startServer();
      const lock = newLocks(clientOf(server)).lock(KEY);
      const held = await lock.acquire();
      const abort = new AbortController();
      const wait = lock.acquire({ signal: abort.signal });
      await server.waitForWaiters(KEY, 1);
      const reason = new Error("enough");
      abort.abort(reason);
      await assert.rejects(wait, reason);
      assert.deepEqual(await server.waiters(KEY), []);
      await assert.rejects(lock.acquire({ signal: abort.signal }), reason);
      await held.release();
    });

    test("wrong passwords, missing rights, other keys, no module", async () => {
      const server = await startServer();
      await server.redis.call("ACL", "SETUSER", "poor", "on", ">x", "~*", "+@connection");
      await assert.rejects(newLocks(clientOf(server, { username: "poor", password: "x" })).lock(KEY).acquire(),
        (error) => error instanceof LockRefused && /NOPERM/.test(error.message));
      await assert.rejects(newLocks(clientOf(server, { username: "poor", password: "y" })).lock(KEY).acquire(), LockRefused);
      await server.redis.set(KEY, "1");
      await assert.rejects(newLocks(clientOf(server)).lock(KEY).acquire(),
        (error) => error instanceof LockMisuse && /SET NX/.test(error.message) && error.message.includes(String(server.port)));
    });

    test("closing", async () => {
      const server = await startServer();
      const locks = newLocks(clientOf(server));
      const held = await locks.lock("held").acquire();
      const fixed = await locks.lock("fixed", { fixed: 60_000 }).acquire();
      const wait = locks.lock("held").acquire();
      const over = assert.rejects(wait, LockMisuse);
      await server.waitForWaiters("held", 1);
      await locks.close();
      await over;
      assert.deepEqual([await server.info("held"), await server.info("fixed")], [undefined, undefined]);
      assert.deepEqual(await server.redis.call("LOCK.SESSION", "LIST"), []);
      for (const call of [held.release(), fixed.check(), locks.lock("new").acquire()]) await assert.rejects(call, LockMisuse);
      await locks.close();
    });
  });
}

test("sharing and permits", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const readers = [await locks.shared(KEY).acquire(), await locks.shared(KEY).acquire()];
  assert.equal(await locks.lock(KEY).tryAcquire(), undefined);
  await Promise.all(readers.map((grant) => grant.release()));
  const permit = locks.permit(KEY, { of: 2 });
  const task = locks.task();
  const permits = [await task.permit(KEY, { of: 2 }).acquire(), await task.permit(KEY, { of: 2 }).acquire()];
  assert.notEqual(permits[0]?.owner, permits[1]?.owner);
  assert.equal(await permit.tryAcquire(), undefined);
  await Promise.all(permits.map((grant) => grant.release()));
  await server.waitUntilFree(KEY);
});

test("a task enters again, and each hold is released once", async () => {
  const server = await startServer();
  const task = newLocks(server).task();
  const lock = task.lock(KEY);
  await lock.run(async (outer) => {
    {
      await using inner = await lock.acquire();
      assert.equal(inner.token, outer.token);
      assert.equal((await server.info(KEY))?.["holds"], 2);
      await inner.release(); // and not again at the end of the block
    }
    assert(outer.held);
    assert.equal((await server.info(KEY))?.["holds"], 1);
  });
  assert.equal(await server.info(KEY), undefined);
});

test("deadlock and not alone", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const [one, two] = [locks.task(), locks.task()];
  const a = await one.lock("a").acquire();
  const b = await two.lock("b").acquire();
  const wait = one.lock("b").acquire();
  await server.waitForWaiters("b", 1);
  await assert.rejects(two.lock("a").acquire(), LockDeadlock);
  await b.release();
  await (await wait).release();
  await a.release();
  await locks.shared(KEY).run(() => one.shared(KEY).run(async () => {
    await assert.rejects(one.lock(KEY).acquire(), LockNotAlone);
  }));
});

test("several locks", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const keys = await locks.all(["b", "a", "b"], (grants) => {
    assert.equal(new Set(grants.map((grant) => grant.owner)).size, 1);
    return grants.map((grant) => grant.key);
  });
  assert.deepEqual(keys, ["a", "b"]);
  await server.redis.call("LOCK.ACQUIRE", "b", "other", "PX", 60_000);
  await assert.rejects(locks.all(["a", "b"], () => assert.fail(), { wait: 100 }), LockBusy);
  assert.equal(await server.info("a"), undefined);
});

test("a fixed lease", async () => {
  const server = await startServer();
  const lock = newLocks(server).lock(KEY, { fixed: 5000 });
  const grant = await lock.acquire();
  assert.equal((await server.holders(KEY))[0]?.["session"] ?? 0, 0);
  await grant.extend(60_000);
  assert(grant.remaining > 50_000);
  await grant.extend(300);
  await eventually(() => grant.lost, "the end of the lease");
  assert.equal(grant.lost?.reason, "expired");
  await using other = await lock.acquire();
  assert(other.remaining <= 5000);
});

test("a maximum time", async () => {
  const server = await startServer();
  const grant = await newLocks(server).lock(KEY, { maxHold: 300 }).acquire();
  await eventually(() => grant.lost, "the end");
  assert.match(grant.lost?.reason ?? "", /maximum/);
  await server.waitUntilFree(KEY);
});

test("extending", async () => {
  const server = await startServer();
  await newLocks(server).lock(KEY).run(async (grant) => {
    await grant.extend(60_000);
    assert.equal((await server.info(KEY))?.["lease-ms"], 60_000);
    assert(grant.remaining > 50_000);
    await grant.extend(1000);
    assert(grant.remaining <= 1000);
    await assert.rejects(grant.extend(500), LockMisuse);
  });
});

test("detach and adopt", async () => {
  const server = await startServer();
  const grant = await newLocks(server).lock(KEY).acquire();
  grant.onLost(() => assert.fail());
  await grant.detach(30_000);
  assert(!grant.held);
  const other = newLocks(server, { service: "other" });
  const adopted = await other.adopt(KEY, grant.owner, grant.token);
  assert(adopted.held);
  assert.equal(adopted.token, grant.token);
  await assert.rejects(grant.release(), LockMisuse);
  await adopted.release();
  assert.equal(await server.info(KEY), undefined);
  await assert.rejects(other.adopt(KEY, grant.owner, grant.token), LockLost);
});

test("leading, without a signal too", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  const abort = new AbortController();
  let terms = 0;
  const leading = locks.lead(KEY, async (grant) => {
    const lost = new Promise<void>((resolve) => { grant.signal.addEventListener("abort", () => resolve()); });
    terms += 1;
    if (terms === 1) await server.redis.del(KEY);
    if (terms === 3) abort.abort();
    if (terms === 2) return;
    await lost;
    throw grant.signal.reason;
  }, { signal: abort.signal });
  await leading; // the signal ends the work of the third term
  assert.equal(terms, 3);
  const failure = new Error("of the work");
  await assert.rejects(locks.lead(KEY, () => { throw failure; }), failure);
  assert.equal(await server.info(KEY), undefined);
});

test("errors of the work are thrown as they are", async () => {
  const server = await startServer();
  const lock = newLocks(server).lock(KEY);
  const failure = new Error("of the work");
  const work = lock.run(async (grant) => {
    await server.redis.del(KEY);
    await eventually(() => grant.lost, "the loss");
    throw failure;
  });
  await assert.rejects(work, (error) => error === failure && failure.cause instanceof LockLost);
  await assert.rejects(lock.run(() => server.redis.del(KEY)), LockLost);
});

test("the observer", async () => {
  const server = await startServer();
  const seen: string[] = [];
  const observer: Observer = {
    acquired: (key, ms, error) => seen.push(`acquired ${key} ${ms >= 0} ${String(error && (error as Error).name)}`),
    released: (key, ms, error) => seen.push(`released ${key} ${ms >= 0} ${String(error && (error as Error).name)}`),
    lost: (key, loss) => seen.push(`lost ${key} ${loss.reason}`),
    connection: (name, error) => {
      seen.push(`connection ${name} ${error === undefined}`);
      throw new Error("of the observer");
    },
  };
  const locks = newLocks(server, { observer });
  const grant = await locks.lock("k").acquire();
  await locks.lock("k").tryAcquire();
  await server.redis.del("k");
  await eventually(() => grant.lost, "the loss");
  await assert.rejects(grant.release(), LockLost);
  assert.deepEqual(seen, ["acquired k true undefined", "acquired k true LockBusy", "lost k deleted", "released k true LockLost"]);
  await using held = await locks.lock("held").acquire();
  const session = ((await server.redis.call("LOCK.SESSION", "LIST")) as unknown[][])[0] ?? [];
  await server.redis.client("KILL", "ID", Number(session[session.indexOf("client-id") + 1]));
  await eventually(() => seen.includes(`connection localhost:${server.port} true`), "the connection to be back");
  assert(held.held);
});

test("prefixes and misuse", async () => {
  const server = await startServer();
  const own = newLocks(server, { prefix: "app:" });
  const ofClient = newLocks(clients["ioredis"]?.(server, { keyPrefix: "app:" }) as never);
  const grant = await own.lock("k").acquire();
  assert.equal(grant.key, "app:k");
  assert.equal(await ofClient.lock("k").tryAcquire(), undefined);
  await grant.release();
  const wrong = [() => own.lock(""), () => own.lock(7 as never), () => own.permit("k", { of: 0 }), () => own.lock("k", { wait: -1 }),
    () => own.lock("k", { fixed: 0 }), () => own.lock("k", { maxHold: Number.NaN }), () => new Locks({} as never),
    () => newLocks(server, { lease: 999 })];
  for (const call of wrong) assert.throws(call, LockMisuse);
});
