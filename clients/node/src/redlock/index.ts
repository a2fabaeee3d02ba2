/**
 * The API of node-redlock 5: change the import, and the locks are those of redis-lock.
 *
 * @packageDocumentation
 */

export { ExecutionError, type ExecutionResult, type ExecutionStats, ResourceLockedError } from "./errors.ts";
export type { RedlockClient } from "./source.ts";
export { Lock, type Operations } from "./lock.ts";
export { type RedlockAbortSignal, Redlock, Redlock as default, type Routine } from "./redlock.ts";
export type { Settings } from "./settings.ts";
