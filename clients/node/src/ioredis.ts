/** Connections of ioredis. */

import { type Address, type Connection, type Library, textOf } from "./library.ts";
import type { Words } from "./state/claim.ts";

/**
 * A `Redis` of ioredis: on one server, or by Sentinels. Only what this package uses of it.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { Locks } from "redis-lock-client";
 *
 * const locks = new Locks(new Redis(6379, "redis"));
 * const primary = new Locks(new Redis({ name: "mymaster", sentinels: [{ host: "sentinel-1", port: 26379 }] }));
 * ```
 */
export interface IoredisClient {
  readonly options: object;
  readonly stream?: { readonly writableCorked?: number; cork?(): void; uncork?(): void; destroy?(): void };
  duplicate(override?: object): IoredisClient;
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  connect(): Promise<void>;
  disconnect(): void;
  on(event: string, listener: (...given: any[]) => void): unknown;
}

/**
 * A `Cluster` of ioredis. Only what this package uses of it.
 *
 * @example
 * ```ts
 * import { Cluster } from "ioredis";
 * import { Locks } from "redis-lock-client";
 *
 * const locks = new Locks(new Cluster([{ host: "node-1", port: 6379 }]));
 * ```
 */
export interface IoredisCluster {
  readonly isCluster: boolean;
  readonly options: object;
  readonly status: string;
  nodes(role?: "all" | "master" | "slave"): IoredisClient[];
  connect(): Promise<void>;
}

interface Options {
  readonly keyPrefix?: string;
  readonly sentinels?: readonly unknown[] | null;
  readonly natMap?: Readonly<Record<string, Address>> | ((address: string) => Address | null);
  readonly name?: string;
  readonly path?: string;
  readonly host?: string;
  readonly port?: number;
}

const optionsOf = (client: { readonly options: object }): Options => client.options as Options;

/** What differs from the user's client: nothing is repeated, and nothing comes back by itself. */
function settings({ sentinels }: Options, at: Address | undefined, limit: number): object {
  const count = sentinels?.length ?? 0;
  const part = limit / (count + 1);
  return {
    ...at,
    lazyConnect: true,
    // Without Sentinels each call has its own limit, and a process that was suspended would take this one as passed.
    connectTimeout: count ? part : 10 * limit,
    commandTimeout: undefined,
    socketTimeout: undefined,
    blockingTimeout: undefined,
    retryStrategy: null,
    reconnectOnError: null,
    enableAutoPipelining: false,
    enableReadyCheck: count > 0, // asks whether it is the primary
    readOnly: false,
    failoverDetector: false,
    sentinelRetryStrategy: null,
    sentinelReconnectStrategy: null,
    sentinelCommandTimeout: part,
  };
}

function openFrom(source: IoredisClient, at: Address | undefined, limit: number, closed: () => void): Connection {
  const redis = source.duplicate(settings(optionsOf(source), at, limit));
  let last: unknown; // what the library says of why it closes
  redis.on("error", (error: unknown) => { last = error; });
  redis.on("end", closed);
  return {
    ready: redis.connect().catch((error: unknown) => { throw last ?? error; }),
    send(words, isTogether) {
      const { stream } = redis;
      if (isTogether && stream?.writableCorked === 0) {
        stream.cork?.();
        process.nextTick(() => stream.uncork?.());
      }
      return redis.call(...(words as [string, ...Words]));
    },
    close() {
      redis.disconnect();
      redis.stream?.destroy?.(); // at once, so that its calls fail at once
    },
  };
}

export function ofIoredis(client: IoredisClient): Library {
  const { keyPrefix = "", sentinels, name, path, host = "localhost", port = 6379 } = optionsOf(client);
  return {
    address: sentinels?.length ? (name ?? "") : (path ?? textOf({ host, port })),
    prefix: keyPrefix,
    open: (at, limit, closed) => openFrom(client, at, limit, closed),
  };
}

export function ofIoredisCluster(client: IoredisCluster): Library {
  const { keyPrefix = "", natMap } = optionsOf(client);
  let source: IoredisClient | undefined; // any node: its settings are those of all
  return {
    address: "cluster",
    prefix: keyPrefix,
    cluster: {
      seeds() {
        if (client.status === "wait") client.connect().catch(() => {});
        const nodes = client.nodes("all");
        source = nodes[0] ?? source;
        return nodes.map(optionsOf).map(({ host = "127.0.0.1", port = 6379 }) => ({ host, port }));
      },
      seen: (address) => (typeof natMap === "function" ? natMap(textOf(address)) : natMap?.[textOf(address)]) ?? address,
    },
    open(at, limit, closed) {
      if (!source) throw new Error("the client of the cluster knows no node"); // it has named the seeds before
      return openFrom(source, at, limit, closed);
    },
  };
}
