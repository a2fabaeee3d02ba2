/** What users of node-redlock rely on, on one server, a cluster, and three servers, with both client libraries. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createClient } from "@redis/client";
import { Cluster } from "ioredis";
import Redlock, { ExecutionError, Lock, type RedlockClient } from "redis-lock-client/redlock";
import { type Server, ends, eventually, nodeOf, startCluster, startServer } from "../servers.ts";
import { failsWith, newRedis } from "./support.ts";

const LONG = 60_000;

/** Clients, and all servers that may have a key. */
interface Setup {
  readonly clients: readonly RedlockClient[];
  readonly serversOf: (key: string) => Promise<readonly Server[]>;
}

async function nodeRedis({ port }: Server): Promise<RedlockClient> {
  const client = createClient({ socket: { port, host: "127.0.0.1" } });
  client.on("error", () => {});
  await client.connect();
  ends.push(() => client.isOpen && client.destroy());
  return client as RedlockClient;
}

async function servers(count: number, connect: (server: Server) => RedlockClient | Promise<RedlockClient>): Promise<Setup> {
  const all = await Promise.all(Array.from({ length: count }, () => startServer()));
  return { clients: await Promise.all(all.map(connect)), serversOf: () => Promise.resolve(all) };
}

const setups: Record<string, () => Promise<Setup>> = {
  "one server, ioredis": () => servers(1, (server) => newRedis(server)),
  "one server, node-redis": () => servers(1, nodeRedis),
  async "a cluster, ioredis"() {
    const nodes = await startCluster();
    const cluster = new Cluster([{ host: "127.0.0.1", port: nodes[0]?.port ?? 0 }]);
    cluster.on("error", () => {});
    ends.push(() => cluster.disconnect());
    return { clients: [cluster], serversOf: async (key) => [await nodeOf(nodes, key)] };
  },
  "three servers, ioredis": () => servers(3, (server) => newRedis(server)),
};

function make({ clients }: Setup, settings: object = {}): Redlock {
  const redlock = new Redlock(clients, settings);
  ends.push(() => redlock.quit().catch(() => {}));
  return redlock;
}

/** What a majority of the servers says. */
async function most<T>(setup: Setup, key: string, ask: (server: Server) => Promise<T>): Promise<T | undefined> {
  const all = await Promise.all((await setup.serversOf(key)).map(ask));
  return all.find((it) => all.filter((other) => other === it).length > all.length / 2);
}
const token = (setup: Setup, key: string): Promise<number | undefined> =>
  most(setup, key, async (server) => (await server.info(key))?.["token"] as number | undefined);
async function lastsFor(setup: Setup, key: string, duration: number): Promise<void> {
  assert(await most(setup, key, async (server) => {
    const ms = await server.redis.pttl(key);
    return ms <= duration && ms > duration - 5000;
  }), `${key} lasts for ${duration} ms`);
}
const isFree = (setup: Setup, key: string): Promise<unknown> =>
  eventually(async () => (await Promise.all((await setup.serversOf(key)).map((it) => it.info(key)))).every((it) => !it), `${key} to be free`);

for (const [name, start] of Object.entries(setups)) {
  test(`${name}: a lock is acquired, extended and released`, async () => {
    const setup = await start();
    const redlock = make(setup);
    const first = await redlock.acquire(["{r}a"], LONG);
    assert(first instanceof Lock && first.redlock === redlock);
    assert.deepEqual(first.resources, ["{r}a"]);
    assert.equal(await token(setup, "{r}a"), first.tokens.get("{r}a"));
    assert((await Promise.all((await setup.serversOf("{r}a")).map((it) => it.info("{r}a")))).some((it) => it?.["owner"] === first.value));
    await lastsFor(setup, "{r}a", LONG);
    assert(first.expiration <= Date.now() + LONG * 0.99 && first.expiration > Date.now() + LONG * 0.9);
    const lock = await first.extend(3 * LONG);
    assert.equal(first.expiration, 0);
    assert.deepEqual([lock.value, lock.tokens], [first.value, first.tokens]);
    assert((lock.tokens.get("{r}a") ?? 0) > 1e15);
    await lastsFor(setup, "{r}a", 3 * LONG);
    const { attempts, start: began } = await lock.release();
    assert(began <= Date.now());
    assert.equal((await Promise.all(attempts)).at(-1)?.membershipSize, setup.clients.length);
    await isFree(setup, "{r}a");
    await assert.rejects(lock.extend(LONG), { name: "ExecutionError", message: "Cannot extend an already-expired lock." });
    await assert.rejects(lock.release(), ExecutionError);
  });

  test(`${name}: several resources are one lock`, async () => {
    const setup = await start();
    const redlock = make(setup, { retryCount: 1, retryDelay: 50, retryJitter: 0 });
    let lock = await redlock.acquire(["{r}b", "{r}a", "{r}b"], LONG);
    for (const key of ["{r}a", "{r}b"]) {
      assert.equal(await token(setup, key), lock.tokens.get(key));
      await lastsFor(setup, key, LONG);
    }
    lock = await lock.extend(2 * LONG);
    for (const key of ["{r}a", "{r}b"]) await lastsFor(setup, key, 2 * LONG);
    // Another that overlaps gets none, and changes nothing.
    await failsWith(redlock.acquire(["{r}b", "{r}c"], LONG), 2);
    await failsWith(redlock.acquire(["{r}0", "{r}a"], LONG), 2);
    for (const key of ["{r}0", "{r}c"]) await isFree(setup, key);
    await lock.release();
    for (const key of ["{r}a", "{r}b"]) await isFree(setup, key);
  });

  test(`${name}: a lock that is held is refused, for as many attempts as are set`, async () => {
    const setup = await start();
    const redlock = make(setup, { retryDelay: 20, retryJitter: 10 });
    const lock = await redlock.acquire(["{r}c"], LONG);
    const began = performance.now();
    await failsWith(redlock.acquire(["{r}c"], LONG), 11);
    const ms = performance.now() - began;
    assert(ms >= 195 && ms < 10_000, `${ms} of about 200`);
    await failsWith(redlock.acquire(["{r}c"], LONG, { retryCount: 0 }), 1);
    const next = redlock.acquire(["{r}c"], LONG, { retryCount: -1 });
    await pause(300);
    await lock.release();
    assert(((await next).tokens.get("{r}c") ?? 0) > (lock.tokens.get("{r}c") ?? 0));
  });

  test(`${name}: a lock ends by itself`, async () => {
    const setup = await start();
    const redlock = make(setup, { retryCount: 0 });
    const lock = await redlock.acquire(["{r}d"], 1000);
    const several = await redlock.acquire(["{r}e", "{r}f"], 1000);
    await pause(1200);
    const second = await redlock.acquire(["{r}d"], LONG, { retryCount: 5 });
    await isFree(setup, "{r}e");
    for (const it of [lock, several]) await failsWith(it.release(), 1);
    assert.equal(await token(setup, "{r}d"), second.tokens.get("{r}d"));
  });

  test(`${name}: using holds its lock while it works, and releases it`, async () => {
    const setup = await start();
    const redlock = make(setup);
    let inside = 0;
    const tokens = await Promise.all([0, 1].map((number) =>
      redlock.using(["{r}x"], 500, { automaticExtensionThreshold: 200, retryCount: 50 }, async (signal) => {
        inside += 1;
        assert.equal(inside, 1);
        const fence = await token(setup, "{r}x");
        await pause(number ? 100 : 1500);
        assert(!signal.aborted && fence && await token(setup, "{r}x") === fence);
        inside -= 1;
        return fence;
      })));
    assert.notEqual(tokens[0], tokens[1]);
    await isFree(setup, "{r}x");
    const failed = new Error("the work has failed");
    await assert.rejects(redlock.using(["{r}x"], 5000, async () => { throw failed; }), failed);
    await isFree(setup, "{r}x");
  });

  test(`${name}: a lock that is lost aborts the work`, async () => {
    const setup = await start();
    const redlock = make(setup);
    const own = new Error("own");
    for (const failure of [undefined, own]) {
      let reason: unknown;
      const using = redlock.using(["{r}y"], 1200, async (signal) => {
        for (const server of await setup.serversOf("{r}y")) await server.redis.del("{r}y");
        await eventually(() => signal.aborted, "the loss", 5000);
        reason = signal.error;
        if (failure) throw failure;
      });
      await assert.rejects(using, failure ?? ExecutionError);
      assert(reason instanceof ExecutionError, String(reason));
    }
  });
}

test("settings and their checks are those of node-redlock, and each call may have its own", async () => {
  const setup = await servers(1, (server) => newRedis(server));
  const redlock = make(setup, { retryCount: 3 });
  assert.deepEqual({ ...redlock.settings },
    { driftFactor: 0.01, retryCount: 3, retryDelay: 200, retryJitter: 100, automaticExtensionThreshold: 500 });
  assert.deepEqual([...redlock.clients], setup.clients);
  for (const call of [redlock.acquire(["a"], 0.5), redlock.using(["a"], 1000.5, async () => {})]) {
    await assert.rejects(call, { message: "Duration must be an integer value in milliseconds." });
  }
  await assert.rejects(redlock.using(["a"], 500, async () => {}), /at least 100ms greater/);
  assert.throws(() => new Redlock([]), /at least one redis client/);
  assert.throws(() => new Redlock([...setup.clients, newRedis({ port: 1 })]), /use one, or at least three/);
  const lock = await redlock.acquire(["a"], 10_000, { driftFactor: 0.5 });
  assert(lock.expiration <= Date.now() + 5000);
  const long = await redlock.acquire(["b"], Math.floor(Number.MAX_SAFE_INTEGER / 10)); // cut to ten years
  assert(long.expiration > Date.now() + 9 * 365 * 86_400_000);
});
