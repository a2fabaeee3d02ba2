/** The user's client, whichever library it is of. */

import type { Driver } from "./driver.ts";
import { LockMisuse } from "./errors.ts";
import { type IoredisClient, type IoredisCluster, driverOfIoredis, driverOfIoredisCluster } from "./ioredis.ts";
import { type NodeRedisClient, type NodeRedisCluster, driverOfFactory, driverOfNodeRedis, driverOfNodeRedisCluster } from "./node-redis.ts";
import type { LocksOptions } from "./options.ts";

/**
 * A client of ioredis (`Redis`, by Sentinels too, or `Cluster`) or of node-redis (`createClient`, `createCluster`);
 * or a function that makes a client of node-redis, not connected yet, for each connection that is needed.
 */
export type Client = IoredisClient | IoredisCluster | NodeRedisClient | NodeRedisCluster
  | (() => NodeRedisClient | Promise<NodeRedisClient>);

export function driverOf(client: Client, { unref = false }: LocksOptions = {}): Driver {
  return { ...driverFor(client), unref };
}

function driverFor(client: Client): Driver {
  if (typeof client === "function") return driverOfFactory(client);
  if ("isCluster" in client && client.isCluster === true) return driverOfIoredisCluster(client as IoredisCluster);
  if ("masters" in client) return driverOfNodeRedisCluster(client);
  if ("call" in client && "duplicate" in client) return driverOfIoredis(client as IoredisClient);
  if ("sendCommand" in client && "duplicate" in client && "isOpen" in client) return driverOfNodeRedis(client as NodeRedisClient);
  throw new LockMisuse("Locks takes a client of ioredis or node-redis, or a function that makes one");
}

/** Ends a client as its library does. */
export async function endClient(client: object): Promise<void> {
  const { close, quit } = client as { close?: () => Promise<unknown>; quit?: () => Promise<unknown> };
  await (close ?? quit)?.call(client);
}
