/**
 * Locks for applications of NestJS.
 *
 * @packageDocumentation
 */

export { LockErrorFilter } from "./filter.ts";
export { InjectLocks, LocksModule, type LocksModuleAsyncOptions, type LocksModuleExtras, type LocksOptionsFactory, getLocksToken } from "./module.ts";
export { type LocksModuleOptions, currentGrant } from "./runner.ts";
export { type KeyOf, type Method, WithLock, type WithLockOptions } from "./with-lock.ts";
