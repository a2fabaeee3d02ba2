/** Locks that a majority of several servers keep together. */

import { Core } from "../core.ts";
import { LockBusy, type LockError, LockMisuse, LockRefused, LockUnavailable } from "../errors.ts";
import type { Grant } from "../grant.ts";
import { lead } from "../lead.ts";
import { Lock } from "../lock.ts";
import { type Client, libraryOf } from "../locks.ts";
import { type LockOptions, type LocksOptions, type Settings, settingsOf } from "../options.ts";
import type { Terms } from "../state/claim.ts";
import { now, pauseAfter } from "../time.ts";
import { Ballot, type Member, PATIENCE } from "./ballot.ts";
import { QuorumHolding } from "./grant.ts";

/**
 * Locks that a majority of several servers keep together: no single server that fails, hangs or is cut off keeps a lock
 * from being acquired, or loses one. Each server renews its part for as long as the process polls its session there. A grant
 * of theirs has no `detach`. Errors have an AggregateError as their `cause`, with those of the servers in their order.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { QuorumLocks } from "redis-lock-client";
 *
 * const clients = ["redis-1", "redis-2", "redis-3"].map((host) => new Redis({ host }));
 * const locks = new QuorumLocks(clients, { service: "orders" });
 * await locks.lock("lock:orders:42", { wait: 10_000 }).run(({ token, signal }) => pay(token, signal));
 * await locks.close();
 * ```
 */
export class QuorumLocks {
  readonly #members: readonly Member[];
  readonly #settings: Settings;
  readonly #prefix: string;

  /**
   * `clients` are those of at least three servers that fail by themselves: none is a replica of another. All processes name
   * them in the same order.
   *
   * @throws {@link LockMisuse} if there are fewer than three, one is no client, or an option is wrong
   */
  constructor(clients: readonly Client[], options: LocksOptions = {}) {
    if (clients.length < 3) throw new LockMisuse("a quorum needs at least 3 servers");
    const { connection } = options.observer ?? {};
    this.#settings = settingsOf(options);
    const settings = { ...this.#settings, observer: connection && { connection: connection.bind(options.observer) } };
    this.#members = clients.map((client, i) => {
      const library = libraryOf(client);
      return { name: `server ${i + 1} (${library.address})`, core: new Core(library, settings) };
    });
    this.#prefix = options.prefix ?? this.#members[0]?.core.library.prefix ?? "";
  }

  /**
   * A lock that one holder has alone. Its waiters queue at the first server that answers.
   *
   * @param key - Without the prefix.
   * @throws {@link LockMisuse} if the key is empty or an option is wrong
   */
  lock(key: string, options: LockOptions = {}): Lock {
    return new Lock(this.#prefix, key, { mode: [] }, options, this.#settings, (name, terms) => this.#acquire(name, terms));
  }

  /** Elects a leader, as {@link Locks.lead} does. */
  lead(key: string, work: (grant: Grant) => unknown, options: LockOptions = {}): Promise<void> {
    return lead(this.lock(key, options), work, options.signal);
  }

  /** Ends all waits, releases all locks and closes the connections of the locks, not the clients: see {@link Locks.close}. */
  async close(): Promise<void> {
    await Promise.all(this.#members.map(({ core }) => core.close()));
  }

  /** For `await using`: {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Asks all servers at once. A caller that gets no majority gives back what it has, and waits in line at the first server
   * that answers. Only the first in that line keeps what it has while it waits for the other servers, so no two callers
   * wait for each other. Where callers disagree about the first server, the end of their turns parts them.
   */
  async #acquire(key: string, terms: Terms): Promise<QuorumHolding> {
    const { signal } = terms;
    const end = now() + terms.wait;
    const left = (): number => Math.max(0, end - now());
    const ballot = new Ballot(this.#members, key, terms);
    let lock: QuorumHolding | undefined;
    let tries = 0;
    try {
      for (let isStuck = terms.wait === 0; ;) {
        await ballot.askRest(0);
        let { first } = ballot;
        const isTurn = first?.holding !== undefined;
        if (isTurn && left() > 0 && ballot.granted < ballot.majority) {
          ballot.leaveLines(); // where it would wait behind itself
          await ballot.askRest(turnTime(left()));
        }
        // Callers in line at the first server come before, unless the line there does not move.
        const token = isTurn || isStuck ? await ballot.raise() : 0;
        if (token) {
          const owner = ballot.votes.find((vote) => vote.has(token))?.holding?.owner ?? "";
          lock = new QuorumHolding(key, owner, token, ballot.majority, this.#settings.observer);
          for (const vote of ballot.votes) lock.join(vote);
          return lock;
        }
        const failure = failureOf(ballot, key, left() === 0);
        await ballot.giveBack();
        signal?.throwIfAborted();
        if (failure) throw failure;
        let rest = turnTime(left());
        if (!first || isTurn) { // too few servers answer, or the turn is over
          first = undefined;
          isStuck = false;
          tries += 1;
          rest = Math.min(pauseAfter(tries), left());
        } else {
          tries = 0;
          isStuck = true;
          if (!first.isInLine) {
            ballot.leaveLines();
            ballot.ask(first, left(), true);
          }
        }
        for (const over = now() + rest; !first?.holding && (await ballot.next(over)););
        isStuck &&= !first?.holding;
        signal?.throwIfAborted();
        if (left() === 0) throw failureOf(ballot, key, true);
      }
    } finally {
      ballot.finish(lock && ((vote) => lock?.join(vote)));
    }
  }
}

/**
 * How long the first in line waits for the other servers before it joins the end of the line. It is also how long the
 * others wait before they see whether a majority is free all the same.
 */
function turnTime(left: number): number {
  return Math.min(1000 + 1000 * Math.random(), Math.max(left / 2, PATIENCE), left);
}

/** Why the acquire fails: because it would not do better later, or its time is over. */
function failureOf(ballot: Ballot, key: string, isOver: boolean): LockError | undefined {
  const { votes, majority } = ballot;
  const refusals = votes.filter((vote) => vote.isRefusal);
  const failed = votes.filter((vote) => vote.error !== undefined);
  const what = failed.map(({ member, error }) => `; ${member.name}: ${(error as Error).message}`).join("");
  const options = { key, cause: new AggregateError(votes.map((vote) => vote.error)) };
  const text = `${key}: no majority of the servers${what}`;
  const [refusal] = refusals;
  if (refusal && votes.length - refusals.length < majority) {
    return new ((refusal.error as LockError).constructor as typeof LockError)(text, options);
  }
  if (votes.some((vote) => vote.refused) && ballot.granted >= majority) return new LockRefused(text, options);
  if (!isOver) return undefined;
  return ballot.count((vote) => vote.isAnswer) >= majority ? new LockBusy(text, options) : new LockUnavailable(text, options);
}
