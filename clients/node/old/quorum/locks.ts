/** Locks on several independent servers that decide together. */

import { type Client, driverOf } from "../client.ts";
import { LockMisuse } from "../errors.ts";
import { Grant } from "../grant.ts";
import { Lock, type Taker, runAll } from "../lock.ts";
import { type LockOptions, type LocksOptions, checkKey, checkToken, wishOf } from "../options.ts";
import { inOrder, leadBy } from "../recipes.ts";
import type { OnVotes } from "./part.ts";
import { QuorumCalls, type QuorumWish } from "./calls.ts";

/** All times are in milliseconds. */
export interface QuorumOptions extends Omit<LockOptions, "keep" | "owner" | "replicas"> {
  /** Told of each time that all servers are asked: to take the lock, to renew it, to give it back. */
  readonly onVotes?: OnVotes | undefined;
}

/** The least lease that is renewed, in ms: round trips have to fit in it many times. */
const LEAST_RENEWED = 100;

function wishFor(options: QuorumOptions, defaults: LocksOptions): QuorumWish {
  for (const name of ["owner", "replicas", "keep"]) {
    if ((options as Record<string, unknown>)[name]) throw new LockMisuse(`on several servers there is no option ${name}`);
  }
  return { ...wishOf(options, defaults, LEAST_RENEWED), onVotes: options.onVotes };
}

/**
 * Locks on three independent servers, or a larger odd number of them: a lock is held while more than half of them have
 * granted it, all with one fencing token. This process renews it; no server is another's replica.
 */
export class QuorumLocks {
  readonly #calls: QuorumCalls;
  readonly #options: LocksOptions;
  readonly #taker: Taker;

  /** With `even` also two servers, or a larger even number: they bear no more failures than one server less does. */
  constructor(clients: readonly Client[], { even = false, ...options }: LocksOptions & { readonly even?: boolean } = {}) {
    if (clients.length < (even ? 2 : 3) || (clients.length % 2 === 0 && !even)) {
      throw new LockMisuse("a quorum has three servers, or a larger odd number of them");
    }
    const drivers = clients.map((client) => driverOf(client, options));
    const addresses = drivers.map(({ server }) => server).filter((it) => it !== "");
    if (new Set(clients).size < clients.length || new Set(addresses).size < addresses.length) {
      throw new LockMisuse("a server has only one voice in a quorum");
    }
    wishFor({}, options);
    this.#options = options;
    this.#calls = new QuorumCalls(drivers, options);
    this.#taker = {
      scope: this.#calls,
      wish: (given) => wishFor(given, options),
      take: async (name, _mode, wish, stop) => new Grant(this.#calls, await this.#calls.acquire(name, wish as QuorumWish, stop)),
    };
  }

  /** A lock that one holder has alone. */
  lock(key: string, options: QuorumOptions = {}): Lock<QuorumOptions> {
    return new Lock<QuorumOptions>(this.#taker, key, "exclusive", options);
  }

  /**
   * Takes a grant over that another process, or an earlier request, has let go of with `detach`. Rejects with LockLost
   * when a majority does not have it any more. The lease begins now.
   */
  async adopt(key: string, owner: string, token: number, options: QuorumOptions = {}): Promise<Grant> {
    const wish = wishFor(options, this.#options);
    checkToken(token);
    return this.#calls.stoppable(options.signal, async (stop) =>
      new Grant(this.#calls, await this.#calls.adopt(checkKey(key), owner, token, wish, stop)));
  }

  /**
   * Does the work while holding all the locks, or rejects having taken none. They are taken in one order, so that
   * two who do this never wait for each other; `wait` is for all together.
   */
  async all<T>(keys: readonly string[], options: QuorumOptions, work: (grants: readonly Grant[]) => T | Promise<T>): Promise<T> {
    return runAll(await inOrder(this, keys, options), work);
  }

  /**
   * Leads: waits for the lock for ever, works while it holds it, and begins again when the work has ended or the lock
   * was lost. Resolves when the signal is aborted; rejects when the work fails.
   */
  lead(key: string, options: QuorumOptions & { readonly signal: AbortSignal }, work: (grant: Grant) => unknown): Promise<void> {
    return leadBy(this, key, work, options);
  }

  /**
   * Releases all that is held, calls off all attempts, and closes the connections of the locks, not the user's clients;
   * within 2 s, whatever the servers do. What is held is told as lost.
   */
  close(): Promise<void> {
    return this.#calls.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
