/** What the clients say to an operation: counted, and told to those who listen. */

import { LockBusy, LockError, LockLost, LockMisuse, ServerReply } from "../errors.ts";
import type { OnVotes, Vote } from "../quorum/part.ts";
import type { RedlockClient } from "./clients.ts";
import { ExecutionError, type ExecutionStats, ResourceLockedError } from "./errors.ts";

/** Whether a key is of another type: node-redlock itself, or another program, has the resource. */
export function isForeign(error: unknown): boolean {
  return error instanceof LockMisuse && error.cause instanceof ServerReply && error.cause.message.startsWith("WRONGTYPE");
}

/** What was said of a lock's resources by the last operation on each. */
export class Ballot {
  readonly #clients: readonly RedlockClient[];
  readonly #resources: number;
  readonly #emit: (error: Error) => void;
  readonly #votes = new Map<string, Promise<readonly Vote[]>>();

  constructor(clients: readonly RedlockClient[], resources: number, emit: (error: Error) => void) {
    this.#clients = clients;
    this.#resources = resources;
    this.#emit = emit;
  }

  /** For the lock of one resource on several clients. */
  of(resource: string): OnVotes {
    return (votes) => {
      this.#votes.set(resource, votes);
      void votes.then((all) => { for (const { error } of all) if (error) this.#emit(this.#told(error)); });
    };
  }

  /** Another operation begins. */
  begin(): void {
    this.#votes.clear();
  }

  /** What all have said when the operation has succeeded, or failed with this error. */
  async stats(error?: unknown): Promise<ExecutionStats> {
    const alike = this.#clients.map((_, server) => (error instanceof LockError ? { server, error } : { server }));
    const votes = this.#votes.size > 0 ? await Promise.all(this.#votes.values()) : [alike];
    const votesAgainst = new Map<RedlockClient, Error>();
    for (const { server, error: why } of votes.flat()) {
      const client = this.#clients[server];
      if (why && client) votesAgainst.set(client, this.#told(why));
    }
    const votesFor = new Set(this.#clients.filter((client) => !votesAgainst.has(client)));
    const membershipSize = this.#clients.length;
    return { membershipSize, quorumSize: Math.floor(membershipSize / 2) + 1, votesFor, votesAgainst };
  }

  /** The error for so many attempts that ended like this. */
  failed(error: unknown, attempts = 1): ExecutionError {
    if (this.#votes.size === 0 && error instanceof LockError) this.#emit(this.#told(error));
    const stats = this.stats(error);
    return new ExecutionError("The operation was unable to achieve a quorum during its retry window.",
      Array.from({ length: attempts }, () => stats), { cause: error });
  }

  #told(error: LockError): Error {
    if (!(error instanceof LockBusy || error instanceof LockLost || isForeign(error))) return error;
    return new ResourceLockedError(`The operation was applied to: 0 of the ${this.#resources} requested resources.`, { cause: error });
  }
}
