/**
 * Measures locks with OpenTelemetry.
 *
 * @packageDocumentation
 */

import { type Attributes, type Meter, diag } from "@opentelemetry/api";
import { LockBusy, LockDeadlock, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable } from "../errors.ts";
import type { Observer } from "../options.ts";

const SECONDS = [.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300];

const OUTCOMES = [[LockBusy, "busy"], [LockLost, "lost"], [LockDeadlock, "deadlock"], [LockNotAlone, "not-alone"],
  [LockRefused, "refused"], [LockUnavailable, "unavailable"], [LockMisuse, "misuse"]] as const;

/**
 * Options of {@link lockMetrics}.
 *
 * @see {@link lockMetrics} for an example
 */
export interface LockMetricsOptions {
  /**
   * Attributes that describe the key of a lock. Give few different ones: each makes series of its own. Without it, no
   * metric depends on keys. An error that it throws is reported to OpenTelemetry's `diag`, and costs that measurement.
   */
  readonly attributes?: ((key: string) => Attributes) | undefined;
}

/**
 * The `observer` of `Locks` and `QuorumLocks` that measures, by this meter. docs/monitoring/README.md lists the metrics. Times
 * are in seconds. It throws nothing.
 *
 * @example
 * ```ts
 * import { metrics } from "@opentelemetry/api";
 * import { Locks } from "redis-lock-client";
 * import { lockMetrics } from "redis-lock-client/otel";
 * import { TestServer } from "redis-lock-client/testing";
 *
 * const kind = (key: string): string => key.split(":")[1] ?? "other"; // of "lock:orders:42": orders
 * const observer = lockMetrics(metrics.getMeter("shop"), { attributes: (key) => ({ kind: kind(key) }) });
 * const locks = new Locks(new TestServer(), { observer });
 * ```
 */
export function lockMetrics(meter: Meter, { attributes }: LockMetricsOptions = {}): Observer {
  const seconds = { unit: "s", advice: { explicitBucketBoundaries: SECONDS } };
  const acquires = meter.createHistogram("redis_lock.client.acquire.duration",
    { ...seconds, description: "How long acquires took, their wait included, by outcome." });
  const held = meter.createHistogram("redis_lock.client.hold.duration",
    { ...seconds, description: "How long locks were held until their release, by its outcome." });
  const losses = meter.createCounter("redis_lock.client.losses",
    { unit: "{lock}", description: "Locks that ended before their holder released them." });
  const cuts = meter.createCounter("redis_lock.client.session.disconnects",
    { unit: "{connection}", description: "Connections of sessions that were lost." });
  const down = meter.createUpDownCounter("redis_lock.client.session.detached",
    { unit: "{server}", description: "Servers without such a connection now." });

  const measure = (key: string, record: (of: Attributes) => void): void => {
    try {
      record({ ...attributes?.(key) });
    } catch (error) {
      diag.error("redis-lock-client: a lock was not measured", error);
    }
  };
  return {
    acquired: (key, ms, error) => measure(key, (of) => acquires.record(ms / 1000, { ...of, outcome: outcomeOf(error) })),
    released: (key, ms, error) => measure(key, (of) => held.record(ms / 1000, { ...of, outcome: outcomeOf(error) })),
    lost: (key) => measure(key, (of) => losses.add(1, of)),
    connection(server, error) {
      if (error !== undefined) cuts.add(1, { server });
      down.add(error === undefined ? -1 : 1, { server });
    },
  };
}

function outcomeOf(error: unknown): string {
  if (error === undefined) return "done";
  return OUTCOMES.find(([kind]) => error instanceof kind)?.[1] ?? "cancelled";
}
