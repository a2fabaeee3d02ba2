/** What many tests need. */

import { createClient } from "@redis/client";
import { Redis } from "ioredis";
import { type Client, Locks, type LocksOptions } from "../src/index.ts";
import { ends, type Place } from "./servers.ts";

export const KEY = "lock:orders:42";

/** A client of each library, that ends with the test. */
export const clients: Record<string, (place: Place, options?: object) => Client> = {
  ioredis: ({ port }, options) => {
    const redis = new Redis({ port, lazyConnect: true, ...options });
    ends.push(() => redis.disconnect());
    return redis;
  },
  "node-redis": ({ port }, options) => createClient({ socket: { port }, ...options }),
};

/** Locks that end with the test, by default on a client of ioredis. */
export function newLocks(where: Place | Client, options: LocksOptions = {}): Locks {
  const client = "port" in where ? clients["ioredis"]?.(where as Place) : where;
  const locks = new Locks(client as Client, { service: "test", ...options });
  ends.push(() => locks.close());
  return locks;
}

/** How long something takes, in ms. */
export async function took(what: () => unknown): Promise<number> {
  const began = performance.now();
  await what();
  return performance.now() - began;
}
