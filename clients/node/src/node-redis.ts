/** Connections of node-redis (the packages redis and @redis/client). */

import { type Address, type Connection, type Library, textOf } from "./library.ts";

/**
 * A client of `createClient`, connected or not. Only what this package uses of it.
 *
 * @example
 * ```ts
 * import { createClient } from "@redis/client";
 * import { Locks } from "redis-lock-client";
 *
 * const locks = new Locks(createClient({ url: "redis://redis:6379" }));
 * const primary = new Locks(async () => createClient(await askSentinels())); // for each connection
 * ```
 */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(words: string[]): Promise<unknown>;
  on(event: string, listener: (...given: any[]) => void): unknown;
}

/** What every client has, though the types of its options differ from version to version. */
interface Source extends NodeRedisClient {
  readonly options?: { readonly socket?: object; readonly keyPrefix?: unknown };
  duplicate(override: object): NodeRedisClient;
}

/**
 * A cluster of `createCluster`, connected. Only what this package uses of it.
 *
 * @example
 * ```ts
 * import { createCluster } from "@redis/client";
 * import { Locks } from "redis-lock-client";
 *
 * const cluster = createCluster({ rootNodes: [{ url: "redis://node-1:6379" }] });
 * await cluster.connect();
 * const locks = new Locks(cluster);
 * ```
 */
export interface NodeRedisCluster {
  readonly masters: readonly { readonly host: string; readonly port: number }[];
  nodeClient(node: never): unknown;
}

interface ClusterOptions {
  readonly keyPrefix?: unknown;
  readonly nodeAddressMap?: Readonly<Record<string, Address>> | ((address: string) => Address | undefined);
}

/** What differs from the user's client: nothing is repeated, and nothing comes back by itself. */
function settings({ options }: Source, at: Address | undefined, limit: number): object {
  return {
    ...(at && { url: undefined }),
    // Each call has its own limit, and a process that was suspended would take this one as passed.
    socket: { ...options?.socket, ...at, reconnectStrategy: false, connectTimeout: 10 * limit, socketTimeout: undefined },
    keyPrefix: undefined,
    readonly: false,
    pingInterval: undefined,
    disableOfflineQueue: true,
    commandsQueueMaxLength: undefined,
    clientSideCache: undefined,
    emitInvalidate: false,
    maintNotifications: "disabled",
    commandOptions: {},
  };
}

function openFrom(make: () => NodeRedisClient | Promise<NodeRedisClient>, closed: () => void): Connection {
  let redis: NodeRedisClient | undefined;
  let isClosed = false;
  const close = (): void => {
    isClosed = true;
    if (redis?.isOpen) redis.destroy();
  };
  const connect = async (): Promise<void> => {
    redis = await make();
    redis.on("error", closed);
    redis.on("end", closed);
    if (isClosed) throw new Error("the connection was closed");
    await redis.connect();
  };
  return {
    ready: connect(),
    send: (words) => redis?.sendCommand(words.map(String)) ?? Promise.reject(new Error("the connection is not open")),
    close,
  };
}

const text = (prefix: unknown): string => (prefix === undefined ? "" : String(prefix));

export function ofNodeRedis(client: NodeRedisClient): Library {
  const source = client as Source;
  const { path, host = "localhost", port = 6379 } = (source.options?.socket ?? {}) as Partial<Address> & { path?: string };
  return {
    address: path ?? textOf({ host, port }),
    prefix: text(source.options?.keyPrefix),
    open: (at, limit, closed) => openFrom(() => source.duplicate(settings(source, at, limit)), closed),
  };
}

export function ofNodeRedisCluster(cluster: NodeRedisCluster): Library {
  const { keyPrefix, nodeAddressMap: map } = (cluster as { readonly _options?: ClusterOptions })._options ?? {};
  let source: Source | undefined; // a client of any node: its settings are those of all
  return {
    address: "cluster",
    prefix: text(keyPrefix),
    cluster: {
      seeds: () => cluster.masters.map(({ host, port }) => ({ host, port })),
      seen: (address) => (typeof map === "function" ? map(textOf(address)) : map?.[textOf(address)]) ?? address,
    },
    open: (at, limit, closed) => openFrom(async () => {
      const [node] = cluster.masters;
      if (node) source = (await (cluster as { nodeClient(it: unknown): unknown }).nodeClient(node)) as Source;
      if (!source) throw new Error("the client of the cluster knows no node: is it connected?");
      return source.duplicate(settings(source, at, limit));
    }, closed),
  };
}

/** A client of node-redis that the user makes for each connection. */
export function ofFactory(make: () => NodeRedisClient | Promise<NodeRedisClient>): Library {
  return { address: "the server", prefix: "", open: (_at, _limit, closed) => openFrom(make, closed) };
}
