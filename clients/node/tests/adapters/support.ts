/** What the tests of all adapters need. */

import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { Locks, type LocksOptions } from "redis-lock-client";
import { ExecutionError, ResourceLockedError } from "redis-lock-client/redlock";
import { type Place, ends } from "../servers.ts";

/** A client of ioredis, which ends with the test. */
export function newRedis({ port }: Place, options: object = {}): Redis {
  const redis = new Redis({ port, host: "127.0.0.1", retryStrategy: () => 50, ...options });
  redis.on("error", () => {});
  ends.push(() => redis.disconnect());
  return redis;
}

export function newLocks(place: Place, options: LocksOptions = {}): Locks {
  const locks = new Locks(newRedis(place), { service: "test", ...options });
  ends.push(() => locks.close());
  return locks;
}

/** A majority votes against the operation of a Redlock in each of so many attempts: by default because others hold the lock. */
export async function failsWith(operation: Promise<unknown>, attempts: number, isLocked = true): Promise<void> {
  const error: unknown = await operation.then(() => undefined, (it: unknown) => it);
  assert(error instanceof ExecutionError && error.name === "ExecutionError", String(error));
  assert.equal(error.attempts.length, attempts);
  for (const { votesAgainst, quorumSize } of await Promise.all(error.attempts)) {
    assert(votesAgainst.size >= quorumSize);
    for (const vote of votesAgainst.values()) assert.equal(vote instanceof ResourceLockedError, isLocked, String(vote));
  }
}
