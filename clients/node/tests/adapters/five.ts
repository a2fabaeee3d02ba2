/** Five independent servers, and what a quorum of them is asked in tests. */

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import { type Grant, type QuorumOptions, type LockEvent, type LocksOptions, QuorumLocks } from "redis-lock-client";
import { Place, Server, ends, startServer } from "../servers.ts";

export const KEY = "lock:report";

export function newRedis({ port }: Place, options: object = {}): Redis {
  const redis = new Redis({ port, host: "127.0.0.1", retryStrategy: () => 50, ...options });
  redis.on("error", () => {});
  ends.push(() => redis.disconnect());
  return redis;
}

export class Five {
  readonly servers: Server[];

  private constructor(servers: Server[]) {
    this.servers = servers;
  }

  static async start(config: Record<string, string> = {}): Promise<Five> {
    return new Five(await Promise.all(Array.from({ length: 5 }, () => startServer(config))));
  }

  /** One of them, by its place. */
  at(place: number): Server {
    const server = this.servers[place];
    assert(server);
    return server;
  }

  locks(options: LocksOptions = {}, places: readonly Place[] = this.servers): QuorumLocks {
    const locks = new QuorumLocks(places.map((place) => newRedis(place)), { service: "test", ...options });
    ends.push(() => locks.close());
    return locks;
  }

  told(options: LocksOptions = {}): { locks: QuorumLocks; told: LockEvent[] } {
    const told: LockEvent[] = [];
    return { locks: this.locks({ ...options, onEvent: (event) => { told.push(event); } }), told };
  }

  /** The owner and the token at each of these servers that has granted the lock. */
  async grants(servers: readonly Server[] = this.servers, key = KEY): Promise<string[]> {
    const infos = await Promise.all(servers.map((server) => server.info(key)));
    return infos.flatMap((info) => (info ? [`${info["owner"]} ${info["token"]}`] : []));
  }

  async waitUntilFree(servers: readonly Server[] = this.servers, key = KEY): Promise<void> {
    await Promise.all(servers.map((server) => server.waitUntilFree(key)));
  }

  /** A lock that all these servers have granted: an attempt goes on without those that come late. */
  async hold(locks: QuorumLocks, options: QuorumOptions = {}, servers: readonly Server[] = this.servers): Promise<Grant> {
    for (let round = 0; round < 20; round += 1) {
      const grant = await locks.lock(KEY, { wait: 5000, ...options }).acquire();
      for (let look = 0; look < 20; look += 1) {
        const all = await this.grants(servers);
        if (all.length === servers.length && all.every((it) => it === `${grant.owner} ${grant.token}`)) return grant;
        await pause(5);
      }
      await grant.release();
    }
    throw new Error("the servers never had it all together");
  }
}
