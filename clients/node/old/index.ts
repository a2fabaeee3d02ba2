/**
 * Distributed locks by redis-lock, on ioredis or node-redis.
 *
 * @packageDocumentation
 */

export type { Client } from "./client.ts";
export { LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable } from "./errors.ts";
export { Grant } from "./grant.ts";
export { Lock } from "./lock.ts";
export { type Holder, Locks } from "./locks.ts";
export type { LockEvent, LockOptions, LocksOptions } from "./options.ts";
export { type QuorumOptions, QuorumLocks } from "./quorum/locks.ts";
export type { OnVotes, Vote } from "./quorum/part.ts";
export { Task } from "./task.ts";
export type { IoredisClient, IoredisCluster } from "./ioredis.ts";
export type { NodeRedisClient, NodeRedisCluster } from "./node-redis.ts";
