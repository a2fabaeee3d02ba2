/** Real servers with the module, and proxies: by `testbed serve` (crates/testing/testbed/src/bin/testbed/serve.rs). */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";

/** What ends with a test, the last one first. */
export const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

export async function eventually<T>(holds: () => T | Promise<T>, what: string, ms = 20_000): Promise<NonNullable<T>> {
  const end = performance.now() + ms;
  for (;;) {
    const value = await holds();
    if (value) return value;
    assert(performance.now() < end, `waited in vain for ${what}`);
    await pause(10);
  }
}

const testbed = spawn("cargo", ["run", "--quiet", "--package", "testbed", "--", "serve"],
  { cwd: path.resolve(import.meta.dirname, "../../../.."), stdio: ["pipe", "pipe", "inherit"] });
const answers = createInterface(testbed.stdout)[Symbol.asyncIterator]();
let last: Promise<unknown> = Promise.resolve();
after(() => { testbed.stdin.end(); });

/** One order at a time. */
function order(words: object): Promise<any> {
  const answer = last.then(async () => {
    testbed.stdin.write(JSON.stringify(words) + "\n");
    const said = JSON.parse((await answers.next()).value);
    assert(!said.error, said.error);
    return said;
  });
  last = answer.catch(() => {});
  return answer;
}

/** A server or a proxy. */
export class Place {
  constructor(readonly port: number) {}

  order(what: string, how: object = {}): Promise<any> { return order({ do: what, port: this.port, ...how }); }

  /** Does this with the reply to the next request that has this word in it. */
  inject(fault: unknown, words: string): Promise<unknown> { return this.order("inject", { fault, words }); }
}

export class Server extends Place {
  readonly redis = new Redis({ port: this.port, retryStrategy: () => 50, maxRetriesPerRequest: null });

  constructor({ port }: { port: number }) {
    super(port);
    this.redis.on("error", () => {});
    ends.push(() => this.redis.disconnect());
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

  /** What the server has refused to users. */
  async refused(): Promise<unknown> { return this.redis.call("ACL", "LOG"); }
}

function fields(flat: any[]): Record<string, any> {
  const pairs = flat.flatMap((name, at) => (at % 2 ? [] : [[name, flat[at + 1]]]));
  return Object.fromEntries(pairs);
}

/** Starts what ends with the test. */
async function start(what: string, how: object = {}): Promise<any> {
  const said = await order({ do: what, ...how });
  const { port } = (said.nodes ?? said.servers ?? [said])[0];
  ends.push(() => order({ do: "end", port }));
  return said;
}

export const startServer = async () => new Server(await start("server"));
export const startProxy = async ({ port }: Server) => new Place((await start("proxy", { port })).port);

/** Three primaries. */
export async function startCluster(): Promise<Server[]> {
  return (await start("cluster")).nodes.map((node: Place) => new Server(node));
}

export async function nodeOf(cluster: Server[], key: string): Promise<Server> {
  const slot = (await cluster[0].redis.call("CLUSTER", "KEYSLOT", key)) as number;
  return cluster.find((_, number) => slot < Math.floor((16384 * (number + 1)) / cluster.length))!;
}

/** A primary, a replica, and a Sentinel that watches over them. */
export async function startSentinels(): Promise<{ primary: Server; replica: Server; sentinel: Server }> {
  const all = await start("sentinels");
  const [primary, replica, sentinel] = [...all.servers, ...all.sentinels].map((it) => new Server(it));
  return { primary, replica, sentinel };
}
