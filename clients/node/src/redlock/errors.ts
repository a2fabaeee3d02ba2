/** The errors of node-redlock, and the votes of the clients. */

import { LockBusy, LockLost, LockMisuse } from "../errors.ts";
import type { RedlockClient } from "./source.ts";

/** How the clients voted in one attempt. */
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

/** Somebody else holds one of the resources, or this lock does not hold it any more. */
export class ResourceLockedError extends Error {
  override readonly name = "ResourceLockedError";
}

/** An operation was not carried out by more than half of the clients. */
export class ExecutionError extends Error {
  override readonly name = "ExecutionError";
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;

  /** The `cause` is an error of redis-lock-client, which says what was wrong. */
  constructor(message: string, attempts: ReadonlyArray<Promise<ExecutionStats>>, options?: { cause?: unknown }) {
    super(message, options);
    this.attempts = attempts;
  }
}

/** Whether a key is of another type: node-redlock itself, or another program, has the resource. */
export const isForeign = (error: unknown): boolean => error instanceof LockMisuse && error.message.includes(": WRONGTYPE ");

/** The votes where these clients failed with these errors; undefined: that one did not fail. */
export function statsOf(clients: readonly RedlockClient[], resources: number, errors: readonly unknown[] = []): ExecutionStats {
  const votesAgainst = new Map(clients.flatMap((client, at) => (errors[at] ? [[client, voteOf(errors[at], resources)]] : [])));
  const votesFor = new Set(clients.filter((client) => !votesAgainst.has(client)));
  return { membershipSize: clients.length, quorumSize: Math.floor(clients.length / 2) + 1, votesFor, votesAgainst };
}

/** An error of each client: those of a quorum are in the `cause`, if all are known. */
export function errorsOf(clients: readonly RedlockClient[], error: unknown): readonly unknown[] {
  const { cause } = Object(error) as { cause?: unknown };
  return cause instanceof AggregateError && cause.errors.length === clients.length ? cause.errors : clients.map(() => error);
}

function voteOf(error: unknown, resources: number): Error {
  if (error instanceof LockBusy || error instanceof LockLost || isForeign(error)) {
    return new ResourceLockedError(`The operation was applied to: 0 of the ${resources} requested resources.`, { cause: error });
  }
  return error instanceof Error ? error : new Error(String(error));
}
