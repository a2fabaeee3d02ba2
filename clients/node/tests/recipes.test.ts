/** What is built from locks. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { LockBusy } from "../src/index.ts";
import { eventually, startServer } from "./servers.ts";
import { KEY, newLocks, took } from "./support.ts";

test("several locks at once, or none, and never a circle", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  await locks.all(["b", "a", "b"], {}, async (grants) => {
    assert.deepEqual(grants.map(({ key }) => key), ["a", "b"]);
    assert.equal((await server.info("a"))?.["owner"], (await server.info("b"))?.["owner"]);
    assert.equal((await server.info("b"))?.["holds"], 1);
  });
  assert.equal(await server.redis.dbsize(), 0);
  const held = await locks.lock("b").acquire();
  const ms = await took(() => assert.rejects(locks.all(["a", "b"], { wait: 400 }, () => {}), LockBusy));
  assert(ms >= 390 && ms < 1400, String(ms));
  assert.equal(await server.info("a"), undefined);
  await held.release();
  let inside = 0;
  await Promise.all(Array.from({ length: 30 }, (_, number) =>
    locks.all(number % 2 ? ["a", "b"] : ["b", "a"], { wait: 20_000 }, async () => {
      assert.equal(inside, 0);
      inside += 1;
      await null;
      inside -= 1;
    })));
});

test("one leads at a time, and another goes on when it is deposed", async () => {
  const server = await startServer();
  const stop = new AbortController();
  const leaders: number[] = [];
  let leading = 0;
  const all = [0, 1, 2].map((number) => newLocks(server).lead(KEY, { signal: stop.signal }, async ({ signal }) => {
    leaders.push(number);
    leading += 1;
    await new Promise<void>((resolve) => {
      for (const it of [signal, stop.signal]) it.addEventListener("abort", () => resolve(), { once: true });
    });
    leading -= 1;
  }));
  await server.waitForWaiters(KEY, 2);
  await server.redis.del(KEY);
  await eventually(() => leaders.length === 2 && leading === 1, "another leader");
  assert.notEqual(leaders[0], leaders[1]);
  stop.abort();
  await Promise.all(all);
  assert.equal(await server.info(KEY), undefined);
  const failed = new Error("the work has failed");
  await assert.rejects(newLocks(server).lead(KEY, { signal: new AbortController().signal }, () => { throw failed; }), failed);
});

test("work is done once, and the others get what it found", async () => {
  const server = await startServer();
  const locks = newLocks(server);
  let done = 0;
  const look = async (): Promise<string | undefined> => (await server.redis.get("cache")) ?? undefined;
  const work = async (): Promise<string> => {
    done += 1;
    await pause(200);
    await server.redis.set("cache", "found");
    return "found";
  };
  const all = await Promise.all(Array.from({ length: 50 }, () => locks.once(KEY, { wait: 20_000 }, look, work)));
  assert(all.every((it) => it === "found"));
  assert.equal(done, 1);
  assert.equal(await server.info(KEY), undefined);
  const held = await locks.lock("other").acquire();
  await assert.rejects(locks.once("other", { wait: 100 }, async () => undefined, work), LockBusy);
  await held.release();
});
