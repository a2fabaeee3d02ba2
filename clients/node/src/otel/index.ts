/**
 * Measures locks with OpenTelemetry.
 *
 * @packageDocumentation
 */

import { type Attributes, type Meter, diag } from "@opentelemetry/api";
import { LockBusy, LockDeadlock, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable } from "../errors.ts";
import type { LockEvent } from "../options.ts";

const SECONDS = [.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300];

/** The names of the errors. */
const OUTCOMES = [[LockBusy, "busy"], [LockLost, "lost"], [LockDeadlock, "deadlock"], [LockNotAlone, "not-alone"],
  [LockRefused, "refused"], [LockUnavailable, "unavailable"], [LockMisuse, "misuse"]] as const;

export interface LockMetricsOptions {
  /**
   * Attributes that tell of the key of a lock. Give few different ones: each makes series of its own. Without it, no
   * metric tells of keys.
   */
  readonly attributes?: ((key: string) => Attributes) | undefined;
}

/**
 * The `onEvent` of `Locks` and `QuorumLocks` that measures, by this meter. The metrics are listed in README.md. What
 * `attributes` throws is told to OpenTelemetry's `diag`, and costs that one measurement.
 */
export function lockMetrics(meter: Meter, { attributes }: LockMetricsOptions = {}): (event: LockEvent) => void {
  const seconds = { unit: "s", advice: { explicitBucketBoundaries: SECONDS } };
  const acquires = meter.createHistogram("redislock.acquire.duration",
    { ...seconds, description: "How long acquires took, their wait included, by outcome." });
  const held = meter.createHistogram("redislock.held.duration",
    { ...seconds, description: "How long locks were held until their release, by its outcome." });
  const losses = meter.createCounter("redislock.losses",
    { unit: "{lock}", description: "Locks that ended otherwise than by their release." });
  const ends = meter.createCounter("redislock.keeper.ends",
    { unit: "{connection}", description: "Connections that keep locks, or servers of a quorum, that were lost." });
  const down = meter.createUpDownCounter("redislock.keeper.down",
    { unit: "{server}", description: "Servers without such a connection now." });

  const ofKey = ({ key }: LockEvent): Attributes => (attributes && key !== undefined ? attributes(key) : {});
  const withOutcome = (event: LockEvent): Attributes => ({ ...ofKey(event), outcome: outcomeOf(event) });
  const ofServer = ({ server }: LockEvent): Attributes => (server === undefined ? {} : { "server.address": server });

  const measure = (event: LockEvent): void => {
    const { type, ms = 0 } = event;
    if (type === "acquired" || type === "busy" || type === "refused") {
      acquires.record(ms / 1000, withOutcome(event));
    } else if (type === "released") {
      held.record(ms / 1000, withOutcome(event));
    } else if (type === "lost") {
      losses.add(1, ofKey(event));
    } else if (type === "keeper-lost" || type === "server-down") {
      ends.add(1, ofServer(event));
      down.add(1, ofServer(event));
    } else if (type === "keeper-back" || type === "server-back") {
      down.add(-1, ofServer(event));
    }
  };
  return (event) => {
    try {
      measure(event);
    } catch (error) {
      diag.error("redis-lock-client: a lock was not measured", error);
    }
  };
}

function outcomeOf(event: LockEvent): string {
  if (!("error" in event)) return "done";
  return OUTCOMES.find(([kind]) => event.error instanceof kind)?.[1] ?? "cancelled";
}
