/** The metrics of OpenTelemetry, with the names, units and attributes that all clients have. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Attributes, type DiagLogger, diag } from "@opentelemetry/api";
import { MeterProvider, type MetricData, MetricReader } from "@opentelemetry/sdk-metrics";
import { LockBusy, LockLost, LockMisuse, LockUnavailable, Locks, type LocksOptions } from "redis-lock-client";
import { lockMetrics } from "redis-lock-client/otel";
import { type Place, ends, eventually, startServer } from "../servers.ts";
import { Five, newRedis } from "./five.ts";

class Reader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}

  async metrics(): Promise<MetricData[]> {
    const { resourceMetrics } = await this.collect();
    return resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
  }

  /** The count or the sum of every series, by its name and attributes. */
  async read(): Promise<Record<string, number>> {
    const series: Record<string, number> = {};
    for (const { descriptor, dataPoints } of await this.metrics()) {
      for (const { attributes, value } of dataPoints) {
        const all = Object.entries(attributes).map(([name, it]) => `${name}=${String(it)}`).sort().join(",");
        series[`${descriptor.name} ${all}`] = typeof value === "number" ? value : value.count;
      }
    }
    return series;
  }

  /** What it reads as, before long. */
  async reads(wanted: Record<string, number>): Promise<void> {
    const isAll = async (): Promise<boolean> => {
      const now = await this.read();
      return Object.entries(wanted).every(([name, value]) => now[name] === value);
    };
    await eventually(isAll, JSON.stringify(wanted)).catch(async () => assert.deepEqual(await this.read(), wanted));
  }
}

const kindOf = (key: string): Attributes => ({ kind: key.split(":")[0] });

function measured(attributes?: (key: string) => Attributes): { reader: Reader; onEvent: ReturnType<typeof lockMetrics> } {
  const reader = new Reader();
  const provider = new MeterProvider({ readers: [reader] });
  ends.push(() => provider.shutdown());
  return { reader, onEvent: lockMetrics(provider.getMeter("tests"), { attributes }) };
}

function newLocks(place: Place, options: LocksOptions): Locks {
  const locks = new Locks(newRedis(place), { service: "test", ...options });
  ends.push(() => locks.close());
  return locks;
}

test("what is taken, waited for, refused, lost and released is measured, as the other clients do", async () => {
  const server = await startServer();
  const { reader, onEvent } = measured(kindOf);
  const locks = newLocks(server, { onEvent });
  const place = `server.address=127.0.0.1:${server.port}`;
  const grant = await locks.lock("order:1").acquire();
  await assert.rejects(locks.lock("order:1").acquire(), LockBusy);
  const waiting = locks.lock("order:1", { wait: 20_000 }).acquire();
  await server.waitForWaiters("order:1", 1);
  await grant.release();
  await (await waiting).release();

  await locks.lock("stock:1").acquire();
  await server.redis.del("stock:1");
  await reader.reads({ "redislock.losses kind=stock": 1, [`redislock.keeper.down ${place}`]: 0 });
  const fixed = await locks.lock("stock:2", { lease: 30_000, fixed: true }).acquire();
  await server.redis.del("stock:2");
  await assert.rejects(fixed.release(), LockLost);

  const held = await locks.lock("order:3").acquire();
  await assert.rejects(locks.lock("order:3", { wait: 20_000 }).acquire({ signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  await held.release();
  await server.order("kill");
  await reader.reads({ [`redislock.keeper.down ${place}`]: 1 });
  await assert.rejects(locks.lock("order:2").acquire(), LockUnavailable);
  await locks.close();
  await assert.rejects(locks.lock("order:2").acquire(), LockMisuse);
  assert.deepEqual(await reader.read(), {
    "redislock.acquire.duration kind=order,outcome=done": 3,
    "redislock.acquire.duration kind=order,outcome=busy": 1,
    "redislock.acquire.duration kind=order,outcome=cancelled": 1,
    "redislock.acquire.duration kind=order,outcome=unavailable": 1,
    "redislock.acquire.duration kind=order,outcome=misuse": 1,
    "redislock.acquire.duration kind=stock,outcome=done": 2,
    "redislock.held.duration kind=order,outcome=done": 3,
    "redislock.held.duration kind=stock,outcome=lost": 1,
    "redislock.losses kind=stock": 2,
    [`redislock.keeper.ends ${place}`]: 2,
    [`redislock.keeper.down ${place}`]: 1,
  });
});

test("no metric tells of keys, and times are in seconds", async () => {
  const server = await startServer();
  const { reader, onEvent } = measured();
  const locks = newLocks(server, { onEvent });
  const first = await locks.lock("order:1").acquire();
  await assert.rejects(locks.lock("order:1", { wait: 300 }).acquire(), LockBusy);
  await first.release();
  assert.deepEqual(await reader.read(), { "redislock.acquire.duration outcome=done": 1, "redislock.acquire.duration outcome=busy": 1,
    "redislock.held.duration outcome=done": 1 });
  const sums = (await reader.metrics()).map(({ dataPoints }) => dataPoints.at(-1)?.value as { readonly sum: number });
  assert(sums.length === 2 && sums.every(({ sum }) => sum >= .3 && sum < 3), JSON.stringify(sums));
});

test("attributes that cannot be told hurt no lock", async () => {
  const server = await startServer();
  const told: unknown[] = [];
  const logger = { error: (...words: unknown[]) => { told.push(words[1]); } } as unknown as DiagLogger;
  diag.setLogger(logger, { suppressOverrideMessage: true });
  ends.push(() => diag.disable());
  const failure = new RangeError("no such key");
  const { reader, onEvent } = measured(() => { throw failure; });
  await newLocks(server, { onEvent }).lock("order:1").run(() => {});
  assert.deepEqual(told, [failure, failure]);
  assert.deepEqual(await reader.read(), {});
});

test("of a quorum the servers are told", async () => {
  const five = await Five.start();
  const { reader, onEvent } = measured();
  const locks = five.locks({ onEvent });
  const one = five.at(0);
  const place = `server.address=127.0.0.1:${one.port}`;
  await (await five.hold(locks)).release();
  await one.order("kill");
  await locks.lock("order:1").run(() => {});
  await reader.reads({ [`redislock.keeper.ends ${place}`]: 1, [`redislock.keeper.down ${place}`]: 1 });
  await one.order("restart");
  await reader.reads({ [`redislock.keeper.ends ${place}`]: 1, [`redislock.keeper.down ${place}`]: 0 });
  const held = await locks.lock("order:2").acquire();
  for (const server of five.servers) await server.redis.del("order:2");
  await assert.rejects(held.release(), LockLost);
  await reader.reads({ "redislock.losses ": 1, "redislock.held.duration outcome=lost": 1 });
});
