/** Connections of node-redis (the packages redis and @redis/client). */

import type { Address, Driver, OpenOptions, Opening, Socket, Words } from "./driver.ts";
import { NoReply, ServerReply } from "./errors.ts";
import { later } from "./time.ts";

/** A client of `createClient` or `createClientPool`'s clients. */
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

/** A cluster of `createCluster`. */
export interface NodeRedisCluster {
  readonly masters: readonly { readonly host: string; readonly port: number }[];
  nodeClient(node: never): unknown;
  sendCommand(key: string | undefined, isReadonly: boolean | undefined, words: string[]): Promise<unknown>;
}

interface ClusterOptions {
  readonly keyPrefix?: unknown;
  readonly nodeAddressMap?: Readonly<Record<string, Address>> | ((address: string) => Address | undefined);
}

/** What differs from the user's client: nothing is queued unseen, and nothing comes back by itself. */
function settings(source: Source, { name, ms, at }: OpenOptions): object {
  const socket = { ...source.options?.socket, ...at, reconnectStrategy: false, connectTimeout: 10 * ms,
    socketTimeout: undefined, keepAlive: true, keepAliveInitialDelay: 10_000 };
  return {
    ...(at && { url: undefined }),
    socket,
    name,
    keyPrefix: undefined,
    readonly: false,
    pingInterval: undefined,
    disableOfflineQueue: true,
    commandsQueueMaxLength: undefined,
    clientSideCache: undefined,
    emitInvalidate: false,
    maintNotifications: "disabled",
    commandOptions: { timeout: undefined },
  };
}

function understood(error: unknown): Error {
  const text = error instanceof Error ? error.message : String(error);
  for (let it: object | null = Object(error) as object; it; it = Object.getPrototypeOf(it) as object | null) {
    if (it.constructor.name === "ErrorReply") return new ServerReply(text);
  }
  return new NoReply(text, { cause: error });
}

const textOf = (words: Words): string[] => words.map(String);

function openFrom(make: () => NodeRedisClient | Promise<NodeRedisClient>, { closed }: OpenOptions): Opening {
  let redis: NodeRedisClient | undefined;
  let wasReady = false;
  let destroyed = false;
  const destroy = (): void => {
    destroyed = true;
    try {
      if (redis?.isOpen) redis.destroy();
    } catch {
      // it has closed already
    }
  };
  const opened = async (): Promise<Socket> => {
    try {
      const client = (redis = await make());
      client.on("error", (error: Error) => {
        if (wasReady) closed(error);
      });
      client.on("end", () => {
        if (wasReady) closed(new NoReply("the connection has closed"));
      });
      if (destroyed) throw new NoReply("called off");
      await client.connect();
      wasReady = true;
      return {
        send: (words) => client.sendCommand(textOf(words)).catch((error: unknown) => { throw understood(error); }),
        destroy,
        unref: () => (client as { unref?(): void }).unref?.(),
      };
    } catch (error) {
      throw understood(error);
    }
  };
  return { ready: opened(), destroy };
}

const text = (prefix: unknown): string => (prefix === undefined ? "" : String(prefix));

export function driverOfNodeRedis(client: NodeRedisClient): Driver {
  const source = client as Source;
  const prefix = text(source.options?.keyPrefix);
  const { path, host, port } = (source.options?.socket ?? {}) as { path?: string; host?: string; port?: number };
  return {
    prefix,
    server: path ?? (host === undefined && port === undefined ? "" : `${host ?? "localhost"}:${port ?? 6379}`),
    open: (options) => openFrom(() => source.duplicate(settings(source, options)), options),
    look: (command, key) => client.sendCommand([command, prefix + key]).catch((error: unknown) => { throw understood(error); }),
  };
}

export function driverOfNodeRedisCluster(cluster: NodeRedisCluster): Driver {
  const { keyPrefix, nodeAddressMap: map } = (cluster as { readonly _options?: ClusterOptions })._options ?? {};
  const prefix = text(keyPrefix);
  let source: Source | undefined; // a client of any node: what a connection is made like
  const anyNode = async (): Promise<Source> => {
    const [node] = cluster.masters;
    if (node) source = (await (cluster as { nodeClient(it: unknown): unknown }).nodeClient(node)) as Source;
    if (!source) throw new NoReply("the cluster's client knows no node: is it connected?");
    return source;
  };
  return {
    prefix,
    server: "",
    cluster: {
      seeds: () => Promise.resolve(cluster.masters.map(({ host, port }) => ({ host, port }))),
      seen(address) {
        const name = `${address.host}:${address.port}`;
        return (typeof map === "function" ? map(name) : map?.[name]) ?? address;
      },
    },
    open: (options) => openFrom(async () => {
      const like = source ?? (await anyNode());
      return like.duplicate(settings(like, options));
    }, options),
    look: (command, key) => cluster.sendCommand(prefix + key, false, [command, prefix + key])
      .catch((error: unknown) => { throw understood(error); }),
  };
}

/** A connection of a client that the user makes each time, of any library, not connected yet. */
export function driverOfFactory(make: () => NodeRedisClient | Promise<NodeRedisClient>): Driver {
  return {
    prefix: "",
    server: "",
    open: (options) => openFrom(make, options),
    async look(command, key, ms) {
      const client = await make();
      client.on("error", () => {});
      // Else it might try to connect for ever, and nobody hears of it.
      const end = later(ms, () => { if (client.isOpen) client.destroy(); }, { ref: true });
      try {
        await client.connect();
        return await client.sendCommand([command, key]);
      } catch (error) {
        throw understood(error);
      } finally {
        end.cancel();
        if (client.isOpen) client.destroy();
      }
    },
  };
}
