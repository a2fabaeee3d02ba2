/** What an acquire of a Redlock returns. */

import type { ExecutionResult, ExecutionStats } from "./errors.ts";

/** What a lock needs of its `Redlock`. */
export interface Operations {
  release(lock: Lock): Promise<ExecutionResult>;
  extend(existing: Lock, duration: number): Promise<Lock>;
}

export class Lock {
  readonly redlock: Operations;
  readonly resources: string[];
  /** The owner, as LOCK.INFO shows it. Of several resources: their owners, in the order of the sorted names. */
  readonly value: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** Until when the lock may be trusted, by the wall clock. */
  expiration: number;
  /** The fencing token of each resource: later holders have higher ones. */
  readonly tokens: ReadonlyMap<string, number>;

  constructor(redlock: Operations, resources: string[], value: string, attempts: ReadonlyArray<Promise<ExecutionStats>>,
    expiration: number, tokens: ReadonlyMap<string, number> = new Map()) {
    this.redlock = redlock;
    this.resources = resources;
    this.value = value;
    this.attempts = attempts;
    this.expiration = expiration;
    this.tokens = tokens;
  }

  /** Releases the lock. Rejects with ExecutionError if it was lost before, or if too few clients answer. */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /** The lock for so long from now on; this object is over. */
  extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }
}
