/** What users of node-redlock rely on, on one server, a cluster, and three servers, with both client libraries. */

import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { createClient } from "@redis/client";
import { Cluster } from "ioredis";
import Redlock, { ExecutionError, type ExecutionStats, Lock, type RedlockClient, ResourceLockedError } from "redis-lock-client/redlock";
import { type Server, ends, eventually, nodeOf, startCluster, startServer } from "../servers.ts";
import { newRedis } from "./five.ts";

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
  "three servers, node-redis": () => servers(3, nodeRedis),
};

function make({ clients }: Setup, settings: object = {}): Redlock {
  const redlock = new Redlock(clients, settings);
  ends.push(() => redlock.quit().catch(() => {}));
  return redlock;
}

async function failsWith(t: TestContext, operation: Promise<unknown>, attempts: number, look: (stats: ExecutionStats) => void): Promise<void> {
  const error: unknown = await operation.then(() => t.assert.fail("it succeeded"), (it: unknown) => it);
  assert(error instanceof ExecutionError && error instanceof Error, String(error));
  assert.equal(error.name, "ExecutionError");
  assert.equal(error.attempts.length, attempts);
  for (const stats of await Promise.all(error.attempts)) look(stats);
}

const isLocked = ({ votesAgainst, quorumSize }: ExecutionStats): void => {
  assert(votesAgainst.size >= quorumSize);
  assert([...votesAgainst.values()].every((it) => it instanceof ResourceLockedError), String([...votesAgainst.values()]));
};

/** Who holds it on each server, and for how long yet: a majority has to say the same of it. */
async function held(setup: Setup, key: string): Promise<string | undefined> {
  const all = await setup.serversOf(key);
  const infos = await Promise.all(all.map((server) => server.info(key)));
  const owners = infos.map((info) => info?.["owner"] as string | undefined);
  return owners.find((it) => owners.filter((other) => other === it).length > all.length / 2);
}

async function ttl(setup: Setup, key: string): Promise<number> {
  const all = await setup.serversOf(key);
  const ends = await Promise.all(all.map((server) => server.redis.pttl(key)));
  return ends.sort((a, b) => a - b)[Math.floor(ends.length / 2)] ?? 0;
}

const within = (ms: number, expected: number): void => assert(ms <= expected && ms > expected - 5000, `${ms} of ${expected}`);
const isFree = (setup: Setup, key: string): Promise<unknown> =>
  eventually(async () => (await Promise.all((await setup.serversOf(key)).map((it) => it.info(key)))).every((it) => !it), `${key} to be free`);

for (const [name, start] of Object.entries(setups)) {
  test(`${name}: a lock is taken, extended and given back`, async () => {
    const setup = await start();
    const redlock = make(setup);
    let lock = await redlock.acquire(["{r}a"], LONG);
    assert(lock instanceof Lock);
    assert.equal(lock.redlock, redlock);
    assert.deepEqual(lock.resources, ["{r}a"]);
    assert.equal(await held(setup, "{r}a"), lock.value);
    within(await ttl(setup, "{r}a"), LONG);
    within(lock.expiration - Date.now(), LONG * 0.99);
    const token = lock.tokens.get("{r}a");
    assert(token && token > 1e15);
    const before = lock;
    lock = await lock.extend(3 * LONG);
    assert.notEqual(lock, before);
    assert.equal(before.expiration, 0);
    assert.equal(lock.value, before.value);
    assert.equal(lock.tokens.get("{r}a"), token);
    assert.equal(await held(setup, "{r}a"), lock.value);
    within(await ttl(setup, "{r}a"), 3 * LONG);
    const { attempts, start: began } = await lock.release();
    assert(began <= Date.now());
    assert.equal((await Promise.all(attempts)).at(-1)?.membershipSize, setup.clients.length);
    await isFree(setup, "{r}a");
    await assert.rejects(lock.extend(LONG), { name: "ExecutionError", message: "Cannot extend an already-expired lock." });
  });

  test(`${name}: several resources are one lock`, async (t) => {
    const setup = await start();
    const redlock = make(setup, { retryCount: 1, retryDelay: 50, retryJitter: 0 });
    let lock = await redlock.acquire(["{r}b", "{r}a", "{r}b"], LONG);
    const owners = await Promise.all([held(setup, "{r}a"), held(setup, "{r}b")]);
    assert.equal(lock.value, [...new Set(owners)].join(" "));
    for (const key of ["{r}a", "{r}b"]) within(await ttl(setup, key), LONG);
    lock = await lock.extend(2 * LONG);
    for (const key of ["{r}a", "{r}b"]) within(await ttl(setup, key), 2 * LONG);
    // Another that overlaps gets none, and changes nothing.
    await failsWith(t, redlock.acquire(["{r}b", "{r}c"], LONG), 2, isLocked);
    await failsWith(t, redlock.acquire(["{r}0", "{r}a"], LONG), 2, isLocked);
    for (const key of ["{r}0", "{r}c"]) await isFree(setup, key);
    assert.deepEqual(await Promise.all([held(setup, "{r}a"), held(setup, "{r}b")]), owners);
    await lock.release();
    for (const key of ["{r}a", "{r}b"]) await isFree(setup, key);
  });

  test(`${name}: what is held is refused, for as many attempts as are set`, async (t) => {
    const setup = await start();
    const redlock = make(setup, { retryDelay: 20, retryJitter: 10 });
    const lock = await redlock.acquire(["{r}c"], LONG);
    const began = performance.now();
    await failsWith(t, redlock.acquire(["{r}c"], LONG), 11, isLocked);
    const ms = performance.now() - began;
    assert(ms >= 90 && ms < 3000, `${ms} of about 200`);
    await failsWith(t, redlock.acquire(["{r}c"], LONG, { retryCount: 0 }), 1, isLocked);
    assert.equal(await held(setup, "{r}c"), lock.value);
    // Who has time gets it when it comes free.
    const next = redlock.acquire(["{r}c"], LONG, { retryCount: -1 });
    await pause(300);
    await lock.release();
    const second = await next;
    assert((second.tokens.get("{r}c") ?? 0) > (lock.tokens.get("{r}c") ?? 0));
    await second.release();
  });

  test(`${name}: a lock ends by itself`, async (t) => {
    const setup = await start();
    const redlock = make(setup, { retryCount: 0 });
    const lock = await redlock.acquire(["{r}d"], 300);
    const several = await redlock.acquire(["{r}e", "{r}f"], 300);
    await pause(400);
    const second = await redlock.acquire(["{r}d"], LONG, { retryCount: 5 });
    assert.equal(await held(setup, "{r}d"), second.value);
    await isFree(setup, "{r}e");
    for (const it of [lock, several]) await failsWith(t, it.release(), 1, isLocked);
    assert.equal(await held(setup, "{r}d"), second.value);
    await second.release();
  });

  test(`${name}: using holds its lock while it works, alone, and gives it back`, async () => {
    const setup = await start();
    const redlock = make(setup);
    let inside = 0;
    const values = await Promise.all([0, 1].map((number) =>
      redlock.using(["{r}x"], 500, { automaticExtensionThreshold: 200, retryCount: 50 }, async (signal) => {
        inside += 1;
        assert.equal(inside, 1);
        const value = await held(setup, "{r}x");
        assert(value);
        await pause(number ? 100 : 1500);
        assert.equal(signal.aborted, false);
        assert.equal(signal.error, undefined);
        assert.equal(await held(setup, "{r}x"), value);
        inside -= 1;
        return value;
      })));
    assert.notEqual(values[0], values[1]);
    await isFree(setup, "{r}x");
    const failed = new Error("the work has failed");
    await assert.rejects(redlock.using(["{r}x"], 5000, async () => { throw failed; }), failed);
    await isFree(setup, "{r}x");
    await assert.rejects(redlock.using(["{r}x"], 500, async () => {}), /at least 100ms greater/);
  });

  test(`${name}: a lock that is lost aborts the work`, async () => {
    const setup = await start();
    const redlock = make(setup);
    let routine: unknown;
    const using = redlock.using(["{r}y"], 1200, async (signal) => {
      for (const server of await setup.serversOf("{r}y")) await server.redis.del("{r}y");
      await eventually(() => signal.aborted, "the loss", 5000);
      routine = signal.error;
      return "done";
    });
    await assert.rejects(using, ExecutionError);
    assert(routine instanceof ExecutionError, String(routine));
    const own = new Error("own");
    await assert.rejects(redlock.using(["{r}y"], 1200, async (signal) => {
      for (const server of await setup.serversOf("{r}y")) await server.redis.del("{r}y");
      await eventually(() => signal.aborted, "the loss", 5000);
      throw own;
    }), own);
  });
}

test("durations are integers", async () => {
  const redlock = make(await servers(1, (server) => newRedis(server)));
  for (const call of [redlock.acquire(["a"], 0.5), redlock.using(["a"], 1000.5, async () => {})]) {
    await assert.rejects(call, { message: "Duration must be an integer value in milliseconds." });
  }
  const lock = await redlock.acquire(["a"], Math.floor(Number.MAX_SAFE_INTEGER / 10)); // cut to ten years
  await assert.rejects(lock.extend(0.5), /integer/);
  assert(lock.expiration > Date.now() + 9 * 365 * 86_400_000);
  await lock.release();
  assert.throws(() => new Redlock([]), /at least one redis client/);
});

test("settings are those of node-redlock, and each call may have its own", async () => {
  const { clients } = await servers(1, (server) => newRedis(server));
  const redlock = make({ clients } as Setup, { retryCount: 3 });
  assert.deepEqual({ ...redlock.settings },
    { driftFactor: 0.01, retryCount: 3, retryDelay: 200, retryJitter: 100, automaticExtensionThreshold: 500 });
  assert.deepEqual([...redlock.clients], clients);
  const lock = await redlock.acquire(["a"], 10_000, { driftFactor: 0.5 });
  within(lock.expiration - Date.now(), 5000);
});
