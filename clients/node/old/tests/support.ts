/** What many tests need. */

import assert from "node:assert/strict";
import { createClient } from "@redis/client";
import { Redis } from "ioredis";
import { type Client, type Grant, type Lock, type LockEvent, type LockOptions, Locks, type LocksOptions } from "../src/index.ts";
import { ends, eventually, type Place, type Server } from "./servers.ts";

export const KEY = "lock:orders:42";
/** An owner that the user gave. */
export const NAMED = "user:7";

/** How an owner that comes back takes the lock. */
export const comers: Record<string, (locks: Locks) => (options: LockOptions) => Lock> = {
  "a named owner": (locks) => (options) => locks.lock(KEY, { owner: NAMED, ...options }),
  "a task": (locks) => {
    const task = locks.task();
    return (options) => task.lock(KEY, options);
  },
};

/** The connection that keeps the lock; 0: none. */
export const keptBy = async (server: Server): Promise<number> => (await server.holders(KEY))[0]?.["kept-by"] as number;

/** Ends that connection. */
export const cut = async (server: Server): Promise<unknown> => server.redis.call("CLIENT", "KILL", "ID", await keptBy(server));

/** By another one than before. */
export async function waitUntilKept(server: Server, before: number): Promise<void> {
  await eventually(async () => ![0, before].includes(await keptBy(server)), "the keeping");
}

/** A client of ioredis that ends with the test. */
export function newRedis({ port }: Place, options: object = {}): Redis {
  const redis = new Redis({ port, retryStrategy: () => 50, ...options });
  redis.on("error", () => {});
  ends.push(() => redis.disconnect());
  return redis;
}

/** A client of node-redis that ends with the test. */
export async function newNodeRedis({ port }: Place, options: object = {}): Promise<ReturnType<typeof createClient>> {
  const client = createClient({ socket: { port }, ...options });
  client.on("error", () => {});
  await client.connect().catch(() => {});
  ends.push(() => client.isOpen && client.destroy());
  return client as ReturnType<typeof createClient>;
}

/** Locks that end with the test, on a client of its own. */
export function newLocks(where: Place | Exclude<Client, () => unknown>, options: LocksOptions & { redis?: object } = {}): Locks {
  const { redis, ...others } = options;
  const client = "port" in where ? newRedis(where as Place, redis) : where;
  const locks = new Locks(client, { service: "test", ...others });
  ends.push(() => locks.close());
  return locks;
}

/** Locks, and what they tell. */
export function toldLocks(where: Place | Exclude<Client, () => unknown>, options: LocksOptions = {}): { locks: Locks; told: LockEvent[] } {
  const told: LockEvent[] = [];
  return { locks: newLocks(where, { ...options, onEvent: (event) => { told.push(event); } }), told };
}

/** An acquire that is under way. */
export class Pending {
  grant: Grant | undefined;
  error: unknown;
  readonly over: Promise<Grant>;

  constructor(over: Promise<Grant>) {
    this.over = over;
    over.then((grant) => { this.grant = grant; }, (error: unknown) => { this.error = error; });
  }

  static of(lock: Lock, signal?: AbortSignal): Pending {
    return new Pending(lock.acquire(signal ? { signal } : {}));
  }

  async granted(): Promise<Grant> {
    await eventually(() => this.grant ?? this.error, "a grant");
    assert.equal(this.error, undefined);
    assert(this.grant);
    return this.grant;
  }
}

/** How long something takes, whatever comes of it, in ms. */
export async function took(what: () => unknown): Promise<number> {
  const began = performance.now();
  try {
    await what();
  } catch {
    // only the time counts
  }
  return performance.now() - began;
}

/** Blocks the event loop. */
export function stall(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
