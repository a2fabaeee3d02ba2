/** The locks of an application: methods that work under them, and their end after all else has ended. */

import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as pause } from "node:timers/promises";
import type { OnApplicationShutdown } from "@nestjs/common";
import { endClient } from "../end-client.ts";
import { LockMisuse } from "../errors.ts";
import type { Grant } from "../grant.ts";
import { type Client, Locks } from "../locks.ts";
import type { LocksOptions } from "../options.ts";
import { now } from "../time.ts";

/**
 * Options of a {@link LocksModule}: those of `new Locks`, and how they end. All times are in milliseconds.
 *
 * @see {@link LocksModule} for an example
 */
export interface LocksModuleOptions extends LocksOptions {
  /** A client of ioredis or node-redis, as `new Locks` takes it. */
  readonly client: Client;
  /** The application's end also ends the client, after the locks: false by default. */
  readonly closeClient?: boolean | undefined;
  /** How long the application's end waits for methods that work under a lock: 10 s. */
  readonly drainTimeout?: number | undefined;
}

/** Where a method works under locks. */
interface Inside {
  readonly runner: LocksRunner;
  readonly grants: readonly Grant[];
  /** Where its caller works. */
  readonly outer: Inside | undefined;
  /** The method has returned, though something that it called may still run. */
  isOver: boolean;
}

const inside = new AsyncLocalStorage<Inside>();

function* places(): Generator<Inside> {
  for (let place = inside.getStore(); place; place = place.outer) yield place;
}

/**
 * The grant under which the present method works: of this key, without the prefix, or of the lock that was acquired last.
 * Undefined if there is none.
 *
 * @see {@link WithLock} for an example
 */
export function currentGrant(key?: string): Grant | undefined {
  for (const { runner, grants } of places()) {
    const found = key === undefined ? grants.at(-1) : grants.find((grant) => grant.key === runner.nameOf(key));
    if (found) return found;
  }
  return undefined;
}

/** Acquires locks, does the work, and releases them. */
export type Hold<T> = (work: (grants: readonly Grant[]) => Promise<T>) => Promise<T>;

export class LocksRunner implements OnApplicationShutdown {
  readonly locks: Locks;
  readonly #options: LocksModuleOptions;
  readonly #underWay = new Set<Promise<void>>();

  constructor(options: LocksModuleOptions) {
    this.locks = new Locks(options.client, options);
    this.#options = options;
  }

  /** The key with the prefix. */
  nameOf(key: string): string {
    return this.locks.lock(key).key;
  }

  /** Rejects a method that would wait for the lock of its own caller. */
  refuseReentry(keys: readonly string[], method: string): void {
    const names = keys.map((key) => this.nameOf(key));
    for (const { runner, grants, isOver } of places()) {
      const held = !isOver && runner === this && grants.find((grant) => names.includes(grant.key));
      if (!held) continue;
      throw new LockMisuse(`${held.key}: ${method} is called by a method that holds this lock, so it would wait for itself.`
        + " Move the work of both to a method without a lock of its own", { key: held.key });
    }
  }

  /**
   * Works under locks. The result is there when the work has ended. Work that succeeds keeps them until `atLeast` ms after
   * it began.
   */
  run<T>(hold: Hold<T>, work: () => Promise<T>, atLeast: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const running = hold(async (grants) => {
        const end = now() + atLeast;
        const place: Inside = { runner: this, grants, outer: inside.getStore(), isOver: false };
        const result = await inside.run(place, work).finally(() => { place.isOver = true; });
        const left = end - now();
        if (left > 0 && grants.every((grant) => !grant.lost)) {
          resolve(result);
          await pause(left);
        }
        return result;
      }).then(resolve, reject).finally(() => { this.#underWay.delete(running); });
      this.#underWay.add(running);
    });
  }

  /**
   * Nest calls this when the servers have closed: no request is in flight any more. It takes no lock away from other work
   * either: the locks of work that takes longer end after it, or a lease after the process.
   */
  async onApplicationShutdown(): Promise<void> {
    const { client, closeClient = false, drainTimeout = 10_000 } = this.#options;
    const drained = this.#drained();
    const ended = drained.then(async () => {
      await this.locks.close();
      if (closeClient && typeof client === "object") await endClient(client);
    });
    const isDrained = await Promise.race([drained.then(() => true), pause(drainTimeout, false, { ref: false })]);
    if (isDrained) await ended;
  }

  async #drained(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }
}
