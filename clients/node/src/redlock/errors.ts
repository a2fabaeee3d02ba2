/** The errors of node-redlock, and the votes of the clients. */

import { LockBusy, LockLost, LockMisuse } from "../errors.ts";
import type { RedlockClient } from "./source.ts";

/**
 * How the clients voted in one attempt.
 *
 * @see {@link ExecutionError} for an example
 */
export interface ExecutionStats {
  /** How many clients there are. */
  readonly membershipSize: number;
  /** How many of them have to agree. */
  readonly quorumSize: number;
  /** Those that agreed. */
  readonly votesFor: Set<RedlockClient>;
  /** Those that did not, each with its reason. */
  readonly votesAgainst: Map<RedlockClient, Error>;
}

/**
 * The attempts of an operation that has succeeded, and when it began.
 *
 * @see {@link ExecutionError} for an example of its `attempts`
 */
export interface ExecutionResult {
  /** One for each attempt. */
  readonly attempts: ReadonlyArray<Promise<ExecutionStats>>;
  /** When it began, by the wall clock, in ms since 1970. */
  readonly start: number;
}

/**
 * Somebody else holds one of the resources, or this lock does not hold it any more. It is the vote of a client.
 *
 * @see {@link ExecutionError} for an example
 */
export class ResourceLockedError extends Error {
  /** As in node-redlock. */
  override readonly name = "ResourceLockedError";
}

/**
 * An operation was not carried out by more than half of the clients.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import Redlock, { ExecutionError, ResourceLockedError } from "redis-lock-client/redlock";
 *
 * const redlock = new Redlock([new Redis()]);
 * await redlock.acquire(["orders:42"], 5000).catch(async (error) => {
 *   if (!(error instanceof ExecutionError)) throw error;
 *   for (const { votesAgainst } of await Promise.all(error.attempts)) {
 *     for (const vote of votesAgainst.values()) answer(vote instanceof ResourceLockedError ? 409 : 503);
 *   }
 * });
 * ```
 */
export class ExecutionError extends Error {
  /** As in node-redlock. */
  override readonly name = "ExecutionError";
  /** One for each attempt. */
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
