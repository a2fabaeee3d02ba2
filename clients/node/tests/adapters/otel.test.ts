/** The metrics of OpenTelemetry, with the names, units and attributes that all clients have. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Attributes, type DiagLogger, diag } from "@opentelemetry/api";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { LockBusy, LockLost, LockMisuse, LockUnavailable, type Observer } from "redis-lock-client";
import { lockMetrics } from "redis-lock-client/otel";
import { ends, eventually, startServer } from "../servers.ts";
import { newLocks } from "./support.ts";

class Reader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}

  /** The value, or count and sum, of every series, by its name and attributes. */
  async read(): Promise<Record<string, unknown>> {
    const { resourceMetrics } = await this.collect();
    return Object.fromEntries(resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics).flatMap(({ descriptor, dataPoints }) =>
      dataPoints.map(({ attributes, value }) => [[descriptor.name, ...Object.values(attributes).sort()].join(" "), value])));
  }

  async counts(): Promise<Record<string, unknown>> {
    return Object.fromEntries(Object.entries(await this.read()).map(([name, value]) =>
      [name, typeof value === "number" ? value : (value as { count: number }).count]));
  }
}

function measured(attributes?: (key: string) => Attributes): { reader: Reader; observer: Observer } {
  const reader = new Reader();
  const provider = new MeterProvider({ readers: [reader] });
  ends.push(() => provider.shutdown());
  return { reader, observer: lockMetrics(provider.getMeter("tests"), { attributes }) };
}

test("acquires, waits, refusals, losses, releases and outages are measured as by the other clients", async () => {
  const server = await startServer();
  const { reader, observer } = measured((key) => ({ kind: key.split(":")[0] }));
  const locks = newLocks(server, { observer });
  const grant = await locks.lock("order:1").acquire();
  await assert.rejects(locks.lock("order:1", { wait: 0 }).acquire(), LockBusy);
  await assert.rejects(locks.lock("order:1").acquire({ signal: AbortSignal.timeout(100) }), { name: "TimeoutError" });
  const waiting = locks.lock("order:1").acquire();
  await server.waitForWaiters("order:1", 1);
  await grant.release();
  await (await waiting).release();

  const lost = await locks.lock("stock:1").acquire();
  await server.redis.del("stock:1");
  await eventually(() => lost.lost, "the loss");
  await assert.rejects(lost.release(), LockLost);

  const down = `redis_lock.client.session.detached 127.0.0.1:${server.port}`;
  await locks.lock("order:2").acquire();
  await server.order("kill");
  await eventually(async () => (await reader.counts())[down] === 1, "the outage");
  await assert.rejects(locks.lock("order:3", { wait: 0 }).acquire(), LockUnavailable);
  await server.order("restart");
  await eventually(async () => (await reader.counts())[down] === 0, "its end");
  await eventually(async () => (await reader.counts())["redis_lock.client.losses order"] === 1,
    "the loss of what it forgot");
  await locks.close();
  await assert.rejects(locks.lock("order:3").acquire(), LockMisuse);

  const { [`redis_lock.client.session.disconnects 127.0.0.1:${server.port}`]: cuts, ...counts } = await reader.counts();
  assert(Number(cuts) >= 1, String(cuts));
  assert.deepEqual(counts, {
    "redis_lock.client.acquire.duration done order": 3,
    "redis_lock.client.acquire.duration busy order": 1,
    "redis_lock.client.acquire.duration cancelled order": 1,
    "redis_lock.client.acquire.duration order unavailable": 1,
    "redis_lock.client.acquire.duration misuse order": 1,
    "redis_lock.client.acquire.duration done stock": 1,
    "redis_lock.client.hold.duration done order": 2,
    "redis_lock.client.hold.duration lost stock": 1,
    "redis_lock.client.losses order": 1,
    "redis_lock.client.losses stock": 1,
    [down]: 0,
  });
});

test("no metric depends on keys, and times are in seconds", async () => {
  const server = await startServer();
  const { reader, observer } = measured();
  const locks = newLocks(server, { observer });
  await locks.lock("order:1").run(() => assert.rejects(locks.lock("order:1", { wait: 300 }).acquire(), LockBusy));
  const series = await reader.read();
  assert.deepEqual(Object.keys(series).sort(), ["redis_lock.client.acquire.duration busy",
    "redis_lock.client.acquire.duration done", "redis_lock.client.hold.duration done"]);
  for (const name of ["redis_lock.client.acquire.duration busy", "redis_lock.client.hold.duration done"]) {
    const { sum } = series[name] as { sum: number };
    assert(sum >= .3 && sum < 10, `${name}: ${sum}`);
  }
});

test("attributes that fail harm no lock, and are reported", async () => {
  const server = await startServer();
  const reported: unknown[] = [];
  const logger = { error: (...words: unknown[]) => { reported.push(words[1]); } } as unknown as DiagLogger;
  diag.setLogger(logger, { suppressOverrideMessage: true });
  ends.push(() => diag.disable());
  const failure = new RangeError("no such key");
  const { reader, observer } = measured(() => { throw failure; });
  await newLocks(server, { observer }).lock("order:1").run(() => {});
  assert.deepEqual(reported, [failure, failure]);
  assert.deepEqual(await reader.read(), {});
});
