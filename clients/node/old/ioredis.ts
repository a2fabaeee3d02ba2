/** Connections of ioredis. */

import type { Address, Driver, OpenOptions, Opening, Socket, Words } from "./driver.ts";
import { NoReply, ServerReply } from "./errors.ts";
import type { Stop } from "./stop.ts";
import { later } from "./time.ts";

/** A `Redis` of ioredis: on one server, or by Sentinels. */
export interface IoredisClient {
  readonly options: object;
  readonly status: string;
  readonly stream?: { unref?(): unknown };
  duplicate(override?: object): IoredisClient;
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  connect(): Promise<void>;
  disconnect(): void;
  on(event: string, listener: (...given: any[]) => void): unknown;
  once(event: string, listener: (...given: any[]) => void): unknown;
}

/** A `Cluster` of ioredis. */
export interface IoredisCluster {
  readonly isCluster: boolean;
  readonly options: object;
  readonly status: string;
  nodes(role?: "all" | "master" | "slave"): IoredisClient[];
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  connect(): Promise<void>;
}

interface Options {
  readonly keyPrefix?: string;
  readonly sentinels?: readonly unknown[];
  readonly natMap?: Readonly<Record<string, Address>> | ((address: string) => Address | null);
  readonly name?: string;
  readonly path?: string;
  readonly host?: string;
  readonly port?: number;
}

const optionsOf = (client: { readonly options: object }): Options => client.options as Options;

/** What differs from the user's client: nothing is repeated or queued unseen, and nothing comes back by itself. */
function settings(source: Options, { name, ms, at }: OpenOptions): object {
  const sentinels = source.sentinels?.length ?? 0;
  return {
    ...at,
    lazyConnect: true,
    connectionName: name,
    // The limit is kept by who opens the connection, for a loop that stood still would take this one as passed.
    connectTimeout: sentinels ? ms / (sentinels + 1) : 10 * ms,
    commandTimeout: undefined,
    socketTimeout: undefined,
    blockingTimeout: undefined,
    retryStrategy: null,
    reconnectOnError: null,
    maxRetriesPerRequest: null,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    enableAutoPipelining: false,
    enableOfflineQueue: true,
    enableReadyCheck: sentinels > 0, // asks whether it is the primary
    keepAlive: 10_000,
    disconnectTimeout: 100,
    keyPrefix: "",
    readOnly: false,
    monitor: false,
    failoverDetector: false,
    sentinelRetryStrategy: null,
    sentinelReconnectStrategy: null,
    sentinelCommandTimeout: ms / (sentinels + 1),
    scripts: undefined,
  };
}

function openFrom(source: IoredisClient, options: OpenOptions): Opening {
  const redis = source.duplicate(settings(optionsOf(source), options));
  let last: unknown; // what the library says of why it closes
  let wasReady = false;
  redis.on("error", (error: unknown) => { last = error; });
  redis.on("end", () => {
    if (wasReady) options.closed(last instanceof Error ? last : new NoReply("the connection has closed"));
  });
  const socket: Socket = {
    send: ([name, ...rest]: Words) => redis.call(name, ...rest).catch((error: unknown) => { throw understood(error); }),
    destroy: () => redis.disconnect(),
    unref: () => redis.stream?.unref?.(),
  };
  const ready = redis.connect().then(
    () => { wasReady = true; return socket; },
    (error: unknown) => { throw understood(last ?? error); },
  );
  return { ready, destroy: () => redis.disconnect() };
}

function understood(error: unknown): Error {
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof Error && error.name === "ReplyError") return new ServerReply(text);
  return new NoReply(text, { cause: error });
}

/** The library puts the prefix before the keys of the commands that it knows. */
function lookBy(client: Pick<IoredisClient, "call" | "options">, command: string, key: string): Promise<unknown> {
  const prefix = command.startsWith("LOCK.") ? (optionsOf(client).keyPrefix ?? "") : "";
  return client.call(command, prefix + key).catch((error: unknown) => { throw understood(error); });
}

export function driverOfIoredis(client: IoredisClient): Driver {
  const { keyPrefix = "", sentinels, name, path, host = "", port = "" } = optionsOf(client);
  return {
    prefix: keyPrefix,
    server: sentinels?.length ? (name ?? "") : (path ?? `${host}:${port}`),
    open: (options) => openFrom(client, options),
    look: (command, key) => lookBy(client, command, key),
  };
}

export function driverOfIoredisCluster(client: IoredisCluster): Driver {
  const { keyPrefix = "", natMap } = optionsOf(client);
  let source: IoredisClient | undefined; // any node: what a connection is made like
  const nodes = (): IoredisClient[] => {
    if (client.status === "wait") client.connect().catch(() => {});
    const all = client.nodes("all");
    source = all[0] ?? source;
    return all;
  };
  return {
    prefix: keyPrefix,
    server: "",
    cluster: {
      async seeds(stop: Stop, until: number) {
        for (;;) {
          const all = nodes();
          const known = all.length ? all : source ? [source] : [];
          if (known.length) {
            return known.map(optionsOf).map(({ host = "127.0.0.1", port = 6379 }) => ({ host, port }));
          }
          // The client is about to learn its first nodes.
          await stop.race(new Promise<void>((resolve) => { later(10, resolve, { ref: true }); }), until);
        }
      },
      seen(address) {
        const name = `${address.host}:${address.port}`;
        return (typeof natMap === "function" ? natMap(name) : natMap?.[name]) ?? address;
      },
    },
    open(options) {
      nodes();
      if (source) return openFrom(source, options);
      return { ready: Promise.reject(new NoReply("the cluster's client knows no node")), destroy() {} };
    },
    look: (command, key) => lookBy(client, command, key),
  };
}
