/** The locks of a process. */

import { Core } from "./core.ts";
import type { Grant } from "./grant.ts";
import { type IoredisClient, type IoredisCluster, ofIoredis, ofIoredisCluster } from "./ioredis.ts";
import type { Library } from "./library.ts";
import { Lock, type Taker, acquire, runUnder } from "./lock.ts";
import { type NodeRedisClient, type NodeRedisCluster, ofFactory, ofNodeRedis, ofNodeRedisCluster } from "./node-redis.ts";
import { lead } from "./lead.ts";
import { type LockOptions, type LocksOptions, checkKey, permits, settingsOf, termsOf } from "./options.ts";
import type { Words } from "./state/claim.ts";
import { misuse } from "./state/grants.ts";
import { now } from "./time.ts";

/**
 * A client of ioredis (`Redis`, by Sentinels too, or `Cluster`) or of node-redis (`createClient`, `createCluster`); or a
 * function that makes a client of node-redis, not connected yet, for each connection. A `TestServer` is for unit tests.
 */
export type Client = IoredisClient | IoredisCluster | NodeRedisClient | NodeRedisCluster
  | (() => NodeRedisClient | Promise<NodeRedisClient>) | Library;

/** @internal */
export function libraryOf(client: Client): Library {
  if (typeof client === "function") return ofFactory(client);
  if ("open" in client && "fault" in client) return client;
  if ("isCluster" in client && client.isCluster === true) return ofIoredisCluster(client as IoredisCluster);
  if ("masters" in client) return ofNodeRedisCluster(client);
  if ("call" in client && "duplicate" in client) return ofIoredis(client as IoredisClient);
  if ("sendCommand" in client && "duplicate" in client && "isOpen" in client) return ofNodeRedis(client as NodeRedisClient);
  throw misuse("Locks", "it takes a client of ioredis or node-redis, or a function that makes one");
}

/** Makes the locks of one owner, or of one for each acquire. */
abstract class Maker {
  /** @internal */
  protected readonly taker: Taker;

  /** @internal */
  constructor(taker: Taker) {
    this.taker = taker;
  }

  /** A lock that one holder has alone. */
  lock(key: string, options: LockOptions = {}): Lock {
    return this.#make(this.taker, key, [], options);
  }

  /** A lock that readers share, while `lock` of the same key is for writers. */
  shared(key: string, options: LockOptions = {}): Lock {
    return this.#make(this.taker, key, ["SHARED"], options);
  }

  /** One of so many permits, if all callers give the same number: a semaphore. Each permit has an owner of its own. */
  permit(key: string, { of, ...options }: LockOptions & { readonly of: number }): Lock {
    return this.#make({ ...this.taker, task: undefined }, key, permits(of), options);
  }

  #make(taker: Taker, key: string, mode: Words, options: LockOptions): Lock {
    const { lease } = taker.core.settings;
    return new Lock(taker.prefix + checkKey(key), options, (given) => termsOf(given, mode, lease),
      (name, terms) => acquire(taker, name, terms));
  }
}

/**
 * One owner for all locks of one piece of work. It enters a lock again that it holds, and the server finds a deadlock
 * among tasks. Pass it along with the work; never share it between two.
 */
export class Task extends Maker {}

/** The locks of a process on one server or cluster. One for each client is enough. */
export class Locks extends Maker {
  constructor(client: Client, options: LocksOptions = {}) {
    const library = libraryOf(client);
    super({ core: new Core(library, settingsOf(options)), prefix: options.prefix ?? library.prefix });
  }

  /** Makes an owner for several locks: for re-entry, and so that deadlocks are found. */
  task(): Task {
    return new Task({ ...this.taker, task: { name: "", held: new Map() } });
  }

  /**
   * Takes over a grant that another process has detached. Without a fixed lease the server renews it from now on. One
   * release gives back all its holds. Rejects with LockLost if it is gone. The key is without the prefix.
   */
  adopt(key: string, owner: string, token: number, options: LockOptions = {}): Promise<Grant> {
    const terms = { ...termsOf(options, [], this.taker.core.settings.lease), wait: 0 };
    return acquire(this.taker, this.taker.prefix + checkKey(key), terms, owner, token);
  }

  /**
   * Works under the locks of several keys, or rejects having acquired none. They are acquired in one order, so that two
   * callers never wait for each other. They have one owner and one time to wait.
   */
  async all<T>(keys: readonly string[], work: (grants: readonly Grant[]) => T | Promise<T>,
    options: LockOptions = {}): Promise<T> {
    const task = this.task();
    const end = now() + (options.wait ?? Infinity);
    const grants: Grant[] = [];
    return runUnder(grants, async () => {
      for (const key of [...new Set(keys)].sort()) {
        grants.push(await task.lock(key, options).acquire({ wait: Math.max(0, end - now()) }));
      }
      const lost = grants.find((grant) => grant.lost); // while the others were waited for
      if (lost) throw lost.lost;
      return work(grants);
    });
  }

  /**
   * Elects a leader: waits for the lock as long as it takes, works while it holds it, and begins again when the work has
   * ended or the lock was lost. Resolves when the signal is aborted. Rejects when the work fails, unless by the loss, and
   * with an error of the lock that does not pass.
   */
  lead(key: string, work: (grant: Grant) => unknown, options: LockOptions = {}): Promise<void> {
    return lead(this.lock(key, options), work, options.signal);
  }

  /**
   * Ends all waits, releases all locks and closes the connections of the locks, not the client. Call it when the work has
   * stopped. It takes at most two reply timeouts; what could not be released is free a lease later.
   */
  close(): Promise<void> {
    return this.taker.core.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
