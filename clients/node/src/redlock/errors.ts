/** The errors of node-redlock, and what each client has said. */

import type { RedlockClient } from "./clients.ts";

/** What the clients have said to one attempt. */
export interface ExecutionStats {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: Set<RedlockClient>;
  readonly votesAgainst: Map<RedlockClient, Error>;
}

/** What an operation that has succeeded took. */
export interface ExecutionResult {
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** When it began, by the wall clock. */
  readonly start: number;
}

/** Somebody else has one of the resources, or this lock has it no more. */
export class ResourceLockedError extends Error {
  override readonly name = "ResourceLockedError";
}

/** An operation was not carried out by more than half of the clients. */
export class ExecutionError extends Error {
  override readonly name = "ExecutionError";
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;

  /** The `cause` is an error of redis-lock-client, which tells what was wrong. */
  constructor(message: string, attempts: ReadonlyArray<Promise<ExecutionStats>>, options?: { cause?: unknown }) {
    super(message, options);
    this.attempts = attempts;
  }
}
