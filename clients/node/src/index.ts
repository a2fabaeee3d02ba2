/**
 * Distributed locks by redis-lock, on ioredis or node-redis.
 *
 * @packageDocumentation
 */

export { LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable } from "./errors.ts";
export { Grant } from "./grant.ts";
export { Lock } from "./lock.ts";
export { type Client, type Holder, Locks } from "./locks.ts";
export type { LockEvent, LockOptions, LocksOptions } from "./options.ts";
export { Task } from "./task.ts";
export type { IoredisClient, IoredisCluster } from "./ioredis.ts";
export type { NodeRedisClient, NodeRedisCluster } from "./node-redis.ts";
