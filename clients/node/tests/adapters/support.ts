/** What the tests of all adapters need. */

import { Redis } from "ioredis";
import { Locks, type LocksOptions } from "redis-lock-client";
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
