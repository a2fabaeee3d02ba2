/** What an acquire of a Redlock returns. */

import type { ExecutionResult, ExecutionStats } from "./errors.ts";
import type { Redlock } from "./redlock.ts";

export class Lock {
  readonly redlock: Redlock;
  readonly resources: string[];
  /** The owner, as LOCK.INFO tells it; of several resources on several clients, the owners with a blank between them. */
  readonly value: string;
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** Until when the lock may be trusted, by the wall clock. */
  expiration: number;
  /** The fencing token of each resource: it rises from holder to holder. Empty where the lock was made by hand. */
  readonly tokens: ReadonlyMap<string, number>;

  constructor(redlock: Redlock, resources: string[], value: string, attempts: ReadonlyArray<Promise<ExecutionStats>>,
    expiration: number, tokens: ReadonlyMap<string, number> = new Map()) {
    this.redlock = redlock;
    this.resources = resources;
    this.value = value;
    this.attempts = attempts;
    this.expiration = expiration;
    this.tokens = tokens;
  }

  /** Gives the lock back. Rejects with ExecutionError where it was lost before, or too few clients answer. */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /** The lock for so long from now on; this one is over. */
  extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }
}
