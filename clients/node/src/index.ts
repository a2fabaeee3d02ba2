/**
 * Distributed locks by redis-lock, on ioredis or node-redis.
 *
 * @packageDocumentation
 */

export { LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable } from "./errors.ts";
export { Grant } from "./grant.ts";
export type { IoredisClient, IoredisCluster } from "./ioredis.ts";
export { Lock } from "./lock.ts";
export { type Client, Locks, Task } from "./locks.ts";
export type { NodeRedisClient, NodeRedisCluster } from "./node-redis.ts";
export type { LockOptions, LocksOptions, Observer } from "./options.ts";
export { QuorumLocks } from "./quorum/locks.ts";
