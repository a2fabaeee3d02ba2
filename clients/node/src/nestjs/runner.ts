/** The locks of an application: what is done under them, and their end after all else has ended. */

import { AsyncLocalStorage } from "node:async_hooks";
import type { OnApplicationShutdown } from "@nestjs/common";
import { type Client, endClient } from "../client.ts";
import type { Grant } from "../grant.ts";
import { Locks } from "../locks.ts";
import type { LocksOptions } from "../options.ts";
import { Stop } from "../stop.ts";
import { now } from "../time.ts";

/** All times are in milliseconds. */
export interface LocksModuleOptions extends LocksOptions {
  /** A client of ioredis or node-redis, as `new Locks` takes it. */
  readonly client: Client;
  /** At the application's end also the client is ended, after the locks. */
  readonly closeClient?: boolean | undefined;
  /** At the application's end, how long methods that work under a lock may go on before it is taken away: 10 s. */
  readonly drainTimeout?: number | undefined;
}

const grants = new AsyncLocalStorage<readonly Grant[]>();

/** The grant under which the present method works: of this key, or the one that was taken last. */
export function currentGrant(key?: string): Grant | undefined {
  const present = grants.getStore() ?? [];
  return key === undefined ? present.at(-1) : present.findLast((grant) => grant.key === key);
}

export class LocksRunner implements OnApplicationShutdown {
  readonly locks: Locks;
  readonly #options: LocksModuleOptions;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(options: LocksModuleOptions) {
    this.locks = new Locks(options.client, options);
    this.#options = options;
  }

  /** Does what takes locks, and has the application's end wait for it. */
  async run<T>(call: (locks: Locks) => Promise<T>): Promise<T> {
    const running = call(this.locks);
    this.#underWay.add(running);
    try {
      return await running;
    } finally {
      this.#underWay.delete(running);
    }
  }

  /** Does the work with `currentGrant` telling of these grants. */
  static under<T>(taken: readonly Grant[], work: () => T): T {
    return grants.run([...(grants.getStore() ?? []), ...taken], work);
  }

  /** Nest calls this when the servers have closed: no request is in flight any more. */
  async onApplicationShutdown(): Promise<void> {
    const { client, closeClient = false, drainTimeout = 10_000 } = this.#options;
    const until = now() + drainTimeout;
    while (this.#underWay.size > 0 && now() < until) {
      await new Stop().race(Promise.allSettled(this.#underWay), until).catch(() => {});
    }
    await this.locks.close();
    if (closeClient && typeof client === "object") {
      await new Stop().race(endClient(client), now() + (this.#options.closeTimeout ?? 2000)).catch(() => {});
    }
  }
}
