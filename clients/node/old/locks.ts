/** The locks of a process. */

import { Calls } from "./calls.ts";
import { type Client, driverOf } from "./client.ts";
import { LockError, LockUnavailable, ServerReply, errorOf } from "./errors.ts";
import { Grant } from "./grant.ts";
import { Lock, type Taker, runAll, takeAlone } from "./lock.ts";
import { type LockOptions, type LocksOptions, checkKey, checkLimit, checkToken, wishOf } from "./options.ts";
import { inOrder, leadBy, once } from "./recipes.ts";
import { fieldsOf } from "./replies.ts";
import { Stop } from "./stop.ts";
import { Task } from "./task.ts";
import { now } from "./time.ts";

/** One of those who hold a lock. */
export interface Holder {
  readonly owner: string;
  readonly token: number;
  readonly holds: number;
  /** How long it has held the lock, and how long its lease has left; in ms. */
  readonly heldFor: number;
  readonly remaining: number;
  readonly lease: number;
  /** How many holders it bears; 0: any number. */
  readonly limit: number;
}

/** The locks of a process, on its Redis client. One for each client is enough. */
export class Locks {
  readonly #calls: Calls;
  readonly #service: string;
  readonly #options: LocksOptions;
  readonly #taker: Taker;

  constructor(client: Client, options: LocksOptions = {}) {
    wishOf({}, options);
    this.#options = options;
    this.#service = options.service ?? "app";
    this.#calls = new Calls(driverOf(client, options), options);
    this.#taker = {
      scope: this.#calls,
      wish: (given) => wishOf(given, options),
      take: (name, mode, wish, stop) => takeAlone(this.#calls, this.#service, name, mode, wish, stop),
    };
  }

  /** A lock that one holder has alone. */
  lock(key: string, options: LockOptions = {}): Lock {
    return new Lock(this.#taker, key, "exclusive", options);
  }

  /** A lock that readers share, while `lock` of the same key is for writers. */
  shared(key: string, options: LockOptions = {}): Lock {
    return new Lock(this.#taker, key, "shared", options);
  }

  /** A permit of a semaphore that has `of` of them. */
  permit(key: string, options: LockOptions & { readonly of: number }): Lock {
    const { of, ...others } = options;
    return new Lock(this.#taker, key, { limit: checkLimit(of) }, others);
  }

  /** A task: one owner for several locks. */
  task(): Task {
    return new Task({ calls: this.#calls, defaults: this.#options, service: this.#service });
  }

  /**
   * Takes a grant over that another process, or an earlier request, has let go of with `detach`. Rejects with LockLost
   * when it is not there any more. A `lease` that is given begins now; without one the grant keeps its own.
   */
  async adopt(key: string, owner: string, token: number, options: LockOptions = {}): Promise<Grant> {
    const wish = wishOf(options, this.#options);
    checkToken(token);
    checkKey(key);
    return this.#calls.stoppable(options.signal, (stop) =>
      this.#calls.owners.adopt(owner, key, token, wish, options.lease !== undefined, stop));
  }

  /**
   * The same, for a moment: without counting holds with others that go on with this grant, whose release ends it for all.
   * @internal
   */
  async adoptBeside(key: string, owner: string, token: number, options: LockOptions): Promise<Grant> {
    const wish = wishOf(options, this.#options);
    const request = { name: key, mode: "exclusive", owner, isNamed: true, wish, limit: this.#calls.limitOf(wish) } as const;
    return this.#calls.stoppable(options.signal, async (stop) =>
      new Grant(this.#calls, await this.#calls.adopt(request, token, options.lease !== undefined, stop)));
  }

  /**
   * Does the work while holding all the locks, or rejects having taken none. They are taken in one order, so that
   * two who do this never wait for each other; `wait` is for all together.
   */
  async all<T>(keys: readonly string[], options: LockOptions, work: (grants: readonly Grant[]) => T | Promise<T>): Promise<T> {
    return runAll(await inOrder(this.task(), keys, options), work);
  }

  /**
   * Leads: waits for the lock for ever, works while it holds it, and begins again when the work has ended or the lock
   * was lost. Resolves when the signal is aborted; rejects when the work fails.
   */
  lead(key: string, options: LockOptions & { readonly signal: AbortSignal }, work: (grant: Grant) => unknown): Promise<void> {
    return leadBy(this, key, work, options);
  }

  /**
   * Gives what `look` finds. Where it finds nothing, one of all who ask does the work, while the others wait for it,
   * for up to `wait`, and look again.
   */
  once<T>(key: string, options: LockOptions, look: () => Promise<T | undefined>, work: (grant: Grant) => Promise<T>): Promise<T> {
    return once(this, key, look, work, options);
  }

  /** Who holds the lock now, the lowest token first. */
  async holders(key: string): Promise<Holder[]> {
    const reply = (await this.#answered(key, () => this.#calls.look("LOCK.HOLDERS", key))) as unknown[];
    return reply.map(fieldsOf).map((fields) => {
      const number = (name: string): number => Number(fields.get(name));
      return { owner: String(fields.get("owner")), token: number("token"), holds: number("holds"), heldFor: number("held-ms"),
        remaining: number("ttl-ms"), lease: number("lease-ms"), limit: number("limit") };
    });
  }

  /** Frees the lock, whoever holds it. True when somebody did. Its holders hear at once that they have lost it. */
  async forceUnlock(key: string): Promise<boolean> {
    return Number(await this.#answered(key, () => this.#calls.delete(key))) > 0;
  }

  /**
   * Releases all that is held, calls off all waits, and closes the connections of the locks, not the user's client;
   * within 2 s, whatever the server does. What is held is told as lost.
   */
  close(): Promise<void> {
    return this.#calls.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #answered(key: string, ask: () => Promise<unknown>): Promise<unknown> {
    this.#calls.mustBeOpen();
    checkKey(key);
    try {
      return await new Stop().race(ask(), now() + this.#calls.servers.reply);
    } catch (error) {
      if (error instanceof LockError) throw error;
      if (error instanceof ServerReply) throw errorOf(error, "acquire", key);
      throw new LockUnavailable(`${key}: the server gave no answer in time`, { key, cause: error });
    }
  }
}
