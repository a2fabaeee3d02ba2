/** The locks of a process. */

import { Core } from "./core.ts";
import type { Grant } from "./grant.ts";
import { hold } from "./holding.ts";
import { type IoredisClient, type IoredisCluster, ofIoredis, ofIoredisCluster } from "./ioredis.ts";
import type { Library } from "./library.ts";
import { Lock } from "./lock.ts";
import { type NodeRedisClient, type NodeRedisCluster, ofFactory, ofNodeRedis, ofNodeRedisCluster } from "./node-redis.ts";
import { lead } from "./lead.ts";
import { type LockOptions, type LocksOptions, permits, settingsOf } from "./options.ts";
import type { TaskOwner, Terms } from "./state/claim.ts";
import { misuse } from "./state/claims.ts";
import type { TestServer } from "./testing.ts";
import { now } from "./time.ts";

/**
 * A client of ioredis (`Redis`, by Sentinels too, or `Cluster`) or of node-redis (`createClient`, `createCluster`); or a
 * function that makes a client of node-redis, not connected yet, for each connection. A `TestServer` is for unit tests.
 *
 * @see {@link IoredisClient}, {@link IoredisCluster}, {@link NodeRedisClient}, {@link NodeRedisCluster} for examples
 */
export type Client = IoredisClient | IoredisCluster | NodeRedisClient | NodeRedisCluster
  | (() => NodeRedisClient | Promise<NodeRedisClient>) | TestServer;

/** @internal */
export function libraryOf(client: Client): Library {
  if (typeof client === "function") return ofFactory(client);
  if ("open" in client && "address" in client) return client;
  if ("isCluster" in client && client.isCluster === true) return ofIoredisCluster(client as IoredisCluster);
  if ("masters" in client) return ofNodeRedisCluster(client);
  if ("call" in client && "duplicate" in client) return ofIoredis(client as IoredisClient);
  if ("sendCommand" in client && "duplicate" in client && "isOpen" in client) return ofNodeRedis(client as NodeRedisClient);
  throw misuse("Locks", "it takes a client of ioredis or node-redis, or a function that makes one");
}

/** Makes the locks of one owner, or of one for each acquire. */
abstract class Maker {
  /** @internal */
  protected readonly core: Core;
  /** @internal */
  protected readonly prefix: string;
  readonly #task: TaskOwner | undefined;

  /** @internal */
  constructor(core: Core, prefix: string, isTask: boolean) {
    this.core = core;
    this.prefix = prefix;
    this.#task = isTask ? { name: "", held: new Map(), calls: 0 } : undefined;
  }

  /**
   * A lock that one holder has alone.
   *
   * @param key - Without the prefix.
   * @throws {@link LockMisuse} if the key is empty or an option is wrong
   */
  lock(key: string, options: LockOptions = {}): Lock {
    return this.make(key, { mode: [], task: this.#task }, options);
  }

  /**
   * A lock that readers share, while `lock` of the same key is for writers.
   *
   * @param key - Without the prefix.
   * @throws {@link LockMisuse} if the key is empty or an option is wrong
   */
  shared(key: string, options: LockOptions = {}): Lock {
    return this.make(key, { mode: ["SHARED"], task: this.#task }, options);
  }

  /**
   * One of so many permits, if all callers give the same number: a semaphore. Each permit has an owner of its own.
   *
   * @param key - Without the prefix.
   * @throws {@link LockMisuse} if the key is empty, `of` is no whole number from 1 on, or an option is wrong
   */
  permit(key: string, { of, ...options }: LockOptions & { readonly of: number }): Lock {
    return this.make(key, { mode: permits(of) }, options);
  }

  /** @internal */
  protected make(key: string, of: Pick<Terms, "mode" | "task" | "adopted">, options: LockOptions): Lock {
    return new Lock(this.prefix, key, of, options, this.core.settings, (name, terms) => hold(this.core, name, terms));
  }
}

/**
 * One owner for all locks of one piece of work. It enters a lock again that it holds, and the server finds a deadlock
 * among tasks. Pass it along with the work; never share it between two.
 *
 * @example
 * ```ts
 * const task = locks.task();
 * await task.lock("lock:orders:42").run(async () => {
 *   await task.lock("lock:orders:42").run(({ token }) => pay(token)); // would wait for itself without the task
 * });
 * ```
 */
export class Task extends Maker {}

/**
 * The locks of a process on one server or cluster. One for each client is enough.
 *
 * The server renews what is held, for as long as this process polls its session. A loss is reported at once: by
 * {@link Grant.signal} and {@link Grant.onLost}, and by the next call about the grant.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { Locks } from "redis-lock-client";
 *
 * const redis = new Redis();
 * const locks = new Locks(redis, { service: "orders" });
 *
 * await locks.lock("lock:orders:42", { wait: 10_000 }).run(({ token, signal }) => pay(token, signal));
 * await locks.shared("lock:prices").run(({ signal }) => report(1, signal)); // with other readers
 * await locks.permit("lock:exports", { of: 3 }).run(({ signal }) => report(2, signal)); // one of three
 *
 * await locks.close();
 * redis.disconnect();
 * ```
 */
export class Locks extends Maker {
  /**
   * Opens no connection: the first acquire does.
   *
   * @param client - Of the application: its settings are those of the connections.
   * @throws {@link LockMisuse} if it is no client, or an option is wrong
   */
  constructor(client: Client, options: LocksOptions = {}) {
    const library = libraryOf(client);
    super(new Core(library, settingsOf(options)), options.prefix ?? library.prefix, false);
  }

  /** Makes an owner for several locks: for re-entry, and so that deadlocks are found. */
  task(): Task {
    return new Task(this.core, this.prefix, true);
  }

  /**
   * Takes over a grant that another process has detached. Without a fixed lease the server renews it from now on. One
   * release gives back all its holds.
   *
   * @param key - Without the prefix.
   * @throws {@link LockLost} if it is gone; {@link LockUnavailable} without an answer
   *
   * @example
   * ```ts
   * const grant = await locks.lock("lock:upload:7").acquire();
   * await grant.detach(60_000); // then in another process, which was given the owner and the token:
   * const adopted = await others.adopt("lock:upload:7", grant.owner, grant.token);
   * await adopted.release();
   * ```
   */
  adopt(key: string, owner: string, token: number, options: LockOptions = {}): Promise<Grant> {
    return this.make(key, { mode: [], adopted: { owner, token } }, { ...options, wait: 0 }).acquire();
  }

  /**
   * Works under the locks of several keys, or rejects having acquired none. They are acquired in one order, so that two
   * callers never wait for each other. They have one owner and one time to wait.
   *
   * @param work - Gets the grants in the order of their keys.
   * @returns what the work gives
   * @throws {@link LockBusy} if the time to wait is over; {@link LockLost} if one was lost during the work
   *
   * @example
   * ```ts
   * await locks.all(["lock:seats:7", "lock:seats:8"], async (grants) => {
   *   for (const { token } of grants) await pay(token);
   * }, { wait: 2000 });
   * ```
   */
  all<T>(keys: readonly string[], work: (grants: readonly Grant[]) => T | Promise<T>, options: LockOptions = {}): Promise<T> {
    const task = this.task();
    const end = now() + (options.wait ?? Infinity);
    const under = async (grants: readonly Grant[], [key, ...rest]: readonly string[]): Promise<T> => {
      if (key !== undefined) {
        const lock = task.lock(key, options);
        return lock.run((grant) => under([...grants, grant], rest), { wait: Math.max(0, end - now()) });
      }
      const lost = grants.find((grant) => grant.lost); // while the others were waited for
      if (lost) throw lost.lost;
      return work(grants);
    };
    return under([], [...new Set(keys)].sort());
  }

  /**
   * Elects a leader: waits for the lock as long as it takes, works while it holds it, and begins again when the work has
   * ended or the lock was lost. Rejects when the work fails, unless by the loss, and with an error of the lock that does not
   * pass.
   *
   * @param options - `signal` ends it: `grant.signal` is aborted too, and the election resolves when the work has ended.
   * `wait` is not used.
   *
   * @example
   * ```ts
   * const ending = new AbortController();
   * const leading = locks.lead("lock:scheduler", async ({ token, signal }) => {
   *   while (!signal.aborted) await report(token, signal);
   * }, { signal: ending.signal });
   *
   * ending.abort(); // at the end of the program
   * await leading;
   * ```
   */
  lead(key: string, work: (grant: Grant) => unknown, options: LockOptions = {}): Promise<void> {
    return lead(this.lock(key, options), work, options.signal);
  }

  /**
   * Ends all waits, releases all locks and closes the connections of the locks, not the client. Call it when the work has
   * stopped. It takes at most two reply timeouts, and never rejects; a lock that could not be released is free a lease
   * later. An acquire after it rejects with {@link LockMisuse}.
   */
  close(): Promise<void> {
    return this.core.close();
  }

  /** For `await using`: {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
