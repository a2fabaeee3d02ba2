/** Real servers with the module on free loopback ports, and a proxy that loses replies. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer, type AddressInfo, type Server as Listener, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";

const ROOT = path.resolve(import.meta.dirname, "../../../..");
const MODULE = process.env.REDIS_LOCK_MODULE || path.join(ROOT, "target/release/libredis_lock.so");
const MANUAL = path.join(ROOT, "docs/operations.md");
const SERVER = process.env.REDIS_SERVER || "redis-server";

export async function eventually<T>(holds: () => T | Promise<T>, what: string, ms = 20_000): Promise<NonNullable<T>> {
  const end = performance.now() + ms;
  for (;;) {
    const value = await holds();
    if (value) return value;
    assert(performance.now() < end, `waited in vain for ${what}`);
    await pause(10);
  }
}

async function freePort(): Promise<number> {
  // Below 55536, because a cluster node also listens on its port + 10000.
  for (;;) {
    const probe = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => probe.once("listening", resolve));
    const { port } = probe.address() as AddressInfo;
    await new Promise((resolve) => probe.close(resolve));
    if (port < 55536) return port;
  }
}

export class Server {
  private constructor(readonly port: number, private readonly folder: string, readonly process: ChildProcess,
    readonly redis: Redis) {}

  static async start(settings: string[] = [], sentinel = false): Promise<Server> {
    const port = await freePort();
    const folder = mkdtempSync(path.join(tmpdir(), "redis-lock-"));
    const lines = [`port ${port}`, "bind 127.0.0.1", `dir ${folder}`, ...settings];
    if (!sentinel) lines.push('save ""', `loadmodule ${MODULE}`, "repl-diskless-sync-delay 0");
    const conf = path.join(folder, "redis.conf");
    writeFileSync(conf, lines.join("\n") + "\n");
    const child = spawn(SERVER, [conf, ...(sentinel ? ["--sentinel"] : [])], { stdio: "ignore" });
    const redis = new Redis({ port, retryStrategy: () => 50, maxRetriesPerRequest: null });
    redis.on("error", () => {});
    await redis.ping();
    return new Server(port, folder, child, redis);
  }

  /** LOCK.INFO as an object; none where the lock is free. */
  async info(key: string): Promise<Record<string, any> | undefined> {
    const flat = (await this.redis.call("LOCK.INFO", key)) as any[] | null;
    return flat ? fields(flat) : undefined;
  }

  async waiters(key: string): Promise<Record<string, any>[]> {
    return ((await this.redis.call("LOCK.WAITERS", key)) as any[][]).map(fields);
  }

  async waitForWaiters(key: string, number: number, ms?: number): Promise<void> {
    await eventually(async () => (await this.waiters(key)).length === number, `${number} to wait`, ms);
  }

  /** How often a command has been called. */
  async calls(command: string): Promise<number> {
    const stats = await this.redis.info("commandstats");
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  }

  /** Runs the lines `ACL SETUSER name ...` of the manual. */
  async addUser(name: string): Promise<void> {
    const lines = readFileSync(MANUAL, "utf8").split("\n");
    const rules = lines.filter((line) => line.startsWith(`ACL SETUSER ${name} `));
    assert(rules.length, name);
    for (const rule of rules) await this.redis.call(...(rule.split(" ") as [string, ...string[]]));
  }

  /** What the server has refused to users. */
  async refused(): Promise<unknown> { return this.redis.call("ACL", "LOG"); }

  async stop(): Promise<void> {
    this.redis.disconnect();
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    if (this.process.exitCode === null && this.process.signalCode === null) {
      this.process.kill("SIGKILL");
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function fields(flat: any[]): Record<string, any> {
  const pairs = flat.flatMap((name, at) => (at % 2 ? [] : [[name, flat[at + 1]]]));
  return Object.fromEntries(pairs);
}

/** Three primaries. */
export class Cluster {
  private constructor(readonly nodes: Server[]) {}

  static async start(): Promise<Cluster> {
    const settings = ["cluster-enabled yes", "cluster-node-timeout 3000"];
    const nodes = await Promise.all([0, 1, 2].map(() => Server.start(settings)));
    for (const [number, { redis }] of nodes.entries()) {
      const start = (node: number) => Math.floor((16384 * node) / 3);
      await redis.call("CLUSTER", "ADDSLOTSRANGE", start(number), start(number + 1) - 1);
      await redis.call("CLUSTER", "SET-CONFIG-EPOCH", number + 1);
      await redis.call("CLUSTER", "MEET", "127.0.0.1", nodes[0].port);
    }
    const isWhole = async ({ redis }: Server) => {
      const info = (await redis.call("CLUSTER", "INFO")) as string;
      return info.includes("cluster_state:ok") && info.includes("cluster_known_nodes:3");
    };
    for (const node of nodes) await eventually(() => isWhole(node), "the cluster to form");
    return new Cluster(nodes);
  }

  async nodeOf(key: string): Promise<Server> {
    const slot = (await this.nodes[0].redis.call("CLUSTER", "KEYSLOT", key)) as number;
    return this.nodes.find((_, number) => slot < Math.floor((16384 * (number + 1)) / 3))!;
  }

  async stop(): Promise<void> { await Promise.all(this.nodes.map((node) => node.stop())); }
}

/** A primary, a replica, and a Sentinel that watches over them. */
export class Sentinels {
  private constructor(readonly primary: Server, readonly replica: Server, readonly sentinel: Server) {}

  static async start(): Promise<Sentinels> {
    const primary = await Server.start();
    const replica = await Server.start([`replicaof 127.0.0.1 ${primary.port}`]);
    const linked = async () => (await replica.redis.info("replication")).includes("master_link_status:up");
    await eventually(linked, "a replica");
    const sentinel = await Server.start([`sentinel monitor lock 127.0.0.1 ${primary.port} 1`,
      "sentinel down-after-milliseconds lock 1000", "sentinel failover-timeout lock 5000"], true);
    const known = async () => ((await sentinel.redis.call("SENTINEL", "REPLICAS", "lock")) as any[]).length;
    await eventually(known, "the Sentinel to know a replica");
    return new Sentinels(primary, replica, sentinel);
  }

  async stop(): Promise<void> {
    for (const server of [this.sentinel, this.replica, this.primary]) await server.stop();
  }
}

/** Passes everything on, but does as told with the next request that has a word in it. */
export class Proxy {
  silent = false;
  private readonly orders = new Map<string, "cut" | "keep" | number>();
  private readonly sockets = new Set<Socket>();

  private constructor(private readonly listener: Listener) {}

  static async start(server: Server): Promise<Proxy> {
    const listener = createServer((client) => proxy.passOn(client, createConnection(server.port, "127.0.0.1")));
    const proxy: Proxy = new Proxy(listener);
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get port(): number { return (this.listener.address() as AddressInfo).port; }

  /** The next such request reaches the server, but its connection ends before the reply. */
  cutAfter(word: string): void { this.orders.set(word, "cut"); }
  /** The next such request reaches the server, but its reply never comes. */
  keepReplyTo(word: string): void { this.orders.set(word, "keep"); }
  delayReplyTo(word: string, ms: number): void { this.orders.set(word, ms); }
  done(word: string): boolean { return !this.orders.has(word); }

  private passOn(client: Socket, server: Socket): void {
    let order: "cut" | "keep" | number | undefined;
    client.on("data", (request) => {
      for (const [word, what] of this.orders) {
        if (!request.includes(word)) continue;
        order = what;
        this.orders.delete(word);
      }
      if (!this.silent) server.write(request);
    });
    server.on("data", async (reply) => {
      const what = order;
      order = undefined;
      if (what === "cut") { client.destroy(); return; }
      if (what === "keep" || this.silent) return;
      if (what) await pause(what);
      client.write(reply);
    });
    for (const [one, other] of [[client, server], [server, client]]) {
      this.sockets.add(one);
      one.on("error", () => {}).on("close", () => { other.destroy(); this.sockets.delete(one); });
    }
  }

  async stop(): Promise<void> {
    this.listener.close();
    for (const socket of this.sockets) socket.destroy();
  }
}
