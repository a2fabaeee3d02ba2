/** The worker of the trial: does what JSON lines on standard input say, all at the same time. Its argument is the library. */

import { createInterface } from "node:readline";
import { createClient, createCluster } from "@redis/client";
import { Cluster, Redis } from "ioredis";
import {
  type Client, type Grant, LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused,
  LockUnavailable, Locks, type Task,
} from "../src/index.ts";

interface Where { readonly url?: string; readonly sentinels?: readonly string[]; readonly master?: string; readonly cluster?: readonly string[] }
interface Request {
  readonly id: number;
  readonly do: string;
  readonly name?: string;
  readonly server?: Where;
  readonly service?: string;
  readonly password?: string | null;
  readonly reply_ms?: number;
  readonly locks?: string;
  readonly key?: string;
  readonly mode?: "exclusive" | "shared" | { readonly limit: number };
  readonly wait_ms?: number;
  readonly lease_ms?: number;
  readonly keep_ms?: number;
  readonly task?: string | null;
  readonly call?: number;
  readonly grant?: number;
  readonly ms?: number;
}

const isNodeRedis = process.argv[2] === "node-redis";
const sites = new Map<string, Site>();
const grants = new Map<number, Grant>();
const calls = new Map<number, AbortController>();

const tell = (line: object): void => { process.stdout.write(`${JSON.stringify(line)}\n`); };
const log = (text: unknown): void => { process.stderr.write(`${String(text)}\n`); };

/** A client with its locks. All locks of a session have one lease, so those of another lease are others. */
class Site {
  readonly tasks = new Map<string, Task>();
  readonly #client: Client;
  readonly #request: Request;
  readonly #end: () => unknown;
  readonly #locks = new Map<string, Locks>();

  constructor(request: Request) {
    this.#request = request;
    [this.#client, this.#end] = clientOf(request);
  }

  of(lease: number, silence: number): Locks {
    const name = silence ? `${lease} ${silence}` : "";
    let locks = this.#locks.get(name);
    if (!locks) {
      const { service, reply_ms: replyTimeout } = this.#request;
      locks = new Locks(this.#client, { service, replyTimeout, ...(silence && { lease: Math.max(lease, 1000), silence }),
        observer: { connection: (server, error) => log(`${server}: ${error === undefined ? "back" : String(error)}`) } });
      this.#locks.set(name, locks);
    }
    return locks;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#locks.values()].map((locks) => locks.close()));
    await this.#end();
  }
}

function known<T>(map: ReadonlyMap<unknown, T>, name: unknown): T {
  const it = map.get(name);
  if (it === undefined) throw new LockMisuse(`there is no ${String(name)}`);
  return it;
}

function address(text: string): { host: string; port: number } {
  const [host = "127.0.0.1", port] = text.split(":");
  return { host, port: Number(port) };
}

/** A client, and what ends it. */
function clientOf(request: Request): [Client, () => unknown] {
  return isNodeRedis ? nodeRedisOf(request) : ioredisOf(request);
}

function ioredisOf({ server: { url, sentinels, master, cluster } = {}, password }: Request): [Client, () => unknown] {
  const login = { ...(password && { password }), lazyConnect: true, retryStrategy: () => 100, maxRetriesPerRequest: 1 };
  const client = cluster
    ? new Cluster(cluster.map(address), { redisOptions: login, lazyConnect: true, clusterRetryStrategy: () => 100 })
    : sentinels ? new Redis({ ...login, sentinels: sentinels.map(address), name: master ?? "" }) : new Redis(url ?? "", login);
  client.on("error", log);
  return [client as Redis, () => client.disconnect()];
}

function nodeRedisOf({ server: { url, sentinels, master, cluster } = {}, password }: Request): [Client, () => unknown] {
  const login = password ? { password } : {};
  if (cluster) {
    const client = createCluster({ rootNodes: cluster.map((it) => ({ url: `redis://${it}` })), defaults: login });
    client.on("error", log);
    client.connect().catch(log);
    return [client, () => client.destroy()];
  }
  if (!sentinels) return [createClient({ ...(url && { url }), ...login }), () => {}];
  return [async () => createClient({ ...login, socket: { ...(await primaryOf(sentinels, master)), reconnectStrategy: false } }), () => {}];
}

/** Asks the Sentinels where the primary is. */
async function primaryOf(sentinels: readonly string[], master = ""): Promise<{ host: string; port: number }> {
  return Promise.any(sentinels.map(async (sentinel) => {
    const client = createClient({ socket: { ...address(sentinel), reconnectStrategy: false } });
    client.on("error", () => {});
    try {
      await client.connect();
      const [host = "", port] = (await client.sendCommand(["SENTINEL", "get-master-addr-by-name", master])) as unknown as string[];
      return { host, port: Number(port) };
    } finally {
      if (client.isOpen) client.destroy();
    }
  }));
}

const actions: Record<string, (request: Request) => object | Promise<object>> = {
  open(request) {
    sites.set(request.name ?? "", new Site(request));
    return { ok: true };
  },

  async acquire(request) {
    const { id, key = "", mode = "exclusive", wait_ms: wait = 0, lease_ms: lease = 0, keep_ms: silence = 0, task: name } = request;
    const site = known(sites, request.locks);
    const locks = site.of(lease, silence);
    const abort = new AbortController();
    calls.set(id, abort);
    try {
      let taker: Locks | Task = locks;
      if (name) site.tasks.set(name, (taker = site.tasks.get(name) ?? locks.task()));
      const options = { wait: wait < 0 ? Infinity : wait, ...(!silence && { fixed: lease }), signal: abort.signal };
      const lock = mode === "exclusive" ? taker.lock(key, options)
        : mode === "shared" ? taker.shared(key, options) : taker.permit(key, { ...options, of: mode.limit });
      const grant = await lock.acquire();
      grants.set(id, grant);
      grant.onLost(() => tell({ event: "lost", grant: id }));
      return { grant: id, token: grant.token, owner: grant.owner };
    } finally {
      calls.delete(id);
    }
  },

  cancel({ call }) {
    calls.get(call ?? 0)?.abort();
    return { ok: true };
  },

  async release({ grant }) {
    const it = known(grants, grant);
    grants.delete(grant ?? 0);
    await it.release();
    return { ok: true };
  },

  async check({ grant }) {
    await known(grants, grant).check();
    return { ok: true, held: true };
  },

  stall({ ms = 0 }) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    return { ok: true };
  },

  fork: () => ({ error: "unsupported" }),

  async close({ locks }) {
    await known(sites, locks).close();
    return { ok: true };
  },
};

const ERRORS = [[LockBusy, "busy"], [LockLost, "lost"], [LockDeadlock, "deadlock"], [LockNotAlone, "not-alone"],
  [LockRefused, "refused"], [LockUnavailable, "unavailable"], [LockMisuse, "misuse"]] as const;

function told(error: unknown): object {
  if (!(error instanceof LockError)) {
    const isCancelled = error instanceof Error && error.name === "AbortError";
    return { error: isCancelled ? "cancelled" : "misuse", text: String(error) };
  }
  return { error: ERRORS.find(([type]) => error instanceof type)?.[1] ?? "misuse", text: error.message };
}

async function answer(line: string): Promise<void> {
  const request = JSON.parse(line) as Request;
  try {
    const action = actions[request.do];
    if (!action) throw new LockMisuse(`unknown: ${request.do}`);
    tell({ id: request.id, ...(await action(request)) });
  } catch (error) {
    tell({ id: request.id, ...told(error) });
  }
}

createInterface({ input: process.stdin })
  .on("line", (line) => void answer(line))
  .on("close", () => process.exit(0));
