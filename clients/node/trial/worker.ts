/** The worker of the trial: does what JSON lines on standard input say, all at the same time. */

import { createInterface } from "node:readline";
import { Cluster, Redis } from "ioredis";
import {
  type Grant, LockBusy, LockDeadlock, LockError, LockLost, LockMisuse, LockNotAlone, LockRefused, LockUnavailable, Locks,
  type Task,
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

const opened = new Map<string, { locks: Locks; tasks: Map<string, Task>; end: () => void }>();
const grants = new Map<number, Grant>();
const calls = new Map<number, AbortController>();

const tell = (line: object): void => { process.stdout.write(`${JSON.stringify(line)}\n`); };
const log = (text: unknown): void => { process.stderr.write(`${String(text)}\n`); };

function known<T>(map: ReadonlyMap<unknown, T>, name: unknown): T {
  const it = map.get(name);
  if (it === undefined) throw new LockMisuse(`there is no ${String(name)}`);
  return it;
}

function address(text: string): { host: string; port: number } {
  const [host = "127.0.0.1", port] = text.split(":");
  return { host, port: Number(port) };
}

function clientOf({ url, sentinels, master, cluster }: Where, password: string | null | undefined): Redis | Cluster {
  // The locks open connections of their own: the client's is never needed.
  const login = { ...(password && { password }), lazyConnect: true, retryStrategy: () => 100, maxRetriesPerRequest: 1 };
  if (cluster) return new Cluster(cluster.map(address), { redisOptions: login, lazyConnect: true, clusterRetryStrategy: () => 100 });
  if (sentinels) return new Redis({ ...login, sentinels: sentinels.map(address), name: master ?? "" });
  return new Redis(url ?? "", login);
}

const actions: Record<string, (request: Request) => object | Promise<object>> = {
  open({ name = "", server = {}, service = "trial", password, reply_ms: replyTimeout }) {
    const client = clientOf(server, password);
    client.on("error", log);
    const locks = new Locks(client as Redis, { service, replyTimeout, onEvent: (event) => log(JSON.stringify(event)) });
    opened.set(name, { locks, tasks: new Map(), end: () => client.disconnect() });
    return { ok: true };
  },

  async acquire(request) {
    const { id, key = "", mode = "exclusive", wait_ms: wait = 0, lease_ms: lease, keep_ms: keep = 30_000, task: name } = request;
    const { locks, tasks } = known(opened, request.locks);
    const abort = new AbortController();
    calls.set(id, abort);
    try {
      let taker: Locks | Task = locks;
      if (name) tasks.set(name, (taker = tasks.get(name) ?? locks.task()));
      const options = { wait: wait < 0 ? Infinity : wait, lease, ...(keep ? { keep } : { fixed: true }), signal: abort.signal };
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
    const { locks: it, end } = known(opened, locks);
    await it.close();
    end();
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
