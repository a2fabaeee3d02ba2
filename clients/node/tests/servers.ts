/** Real servers with the module, by `testbed serve` (crates/testing/testbed/src/bin/testbed/serve.rs). */

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

/** The program that starts servers: TESTBED, or the one of this project. */
const [program = "cargo", ...given] = process.env["TESTBED"]?.split(" ") ?? ["cargo", "run", "--quiet", "--package", "testbed", "--"];
const testbed = spawn(program, [...given, "serve"],
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

export interface Place {
  readonly port: number;
}

export type Fields = Record<string, any>;

export class Server implements Place {
  readonly port: number;
  readonly redis: Redis;

  constructor({ port }: Place) {
    this.port = port;
    this.redis = new Redis({ port, retryStrategy: () => 50, maxRetriesPerRequest: null });
    this.redis.on("error", () => {});
    ends.push(() => this.redis.disconnect());
  }

  order(what: string): Promise<unknown> { return order({ do: what, port: this.port }); }

  /** LOCK.INFO as an object; none where the lock is free. */
  async info(key: string): Promise<Fields | undefined> {
    const flat = (await this.redis.call("LOCK.INFO", key)) as unknown[] | null;
    return flat ? fields(flat) : undefined;
  }

  async holders(key: string): Promise<Fields[]> {
    return ((await this.redis.call("LOCK.HOLDERS", key)) as unknown[][]).map(fields);
  }

  async waiters(key: string): Promise<Fields[]> {
    return ((await this.redis.call("LOCK.WAITERS", key)) as unknown[][]).map(fields);
  }

  async waitForWaiters(key: string, number: number): Promise<void> {
    await eventually(async () => (await this.waiters(key)).length === number, `${number} to wait`);
  }

  async waitUntilFree(key: string, ms?: number): Promise<void> {
    await eventually(async () => !(await this.info(key)), `${key} to be free`, ms);
  }

  /** How often a command has been called. */
  async calls(command: string): Promise<number> {
    const stats = await this.redis.info("commandstats");
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  }
}

function fields(flat: readonly unknown[]): Fields {
  return Object.fromEntries(flat.flatMap((name, at) => (at % 2 ? [] : [[name, flat[at + 1]]])));
}

/** Starts what ends with the test. */
async function start(what: string, how: object = {}): Promise<any> {
  const said = await order({ do: what, ...how });
  const { port } = said.nodes?.[0] ?? said;
  ends.push(() => order({ do: "end", port }));
  return said;
}

export const startServer = async (config: Record<string, string> = {}): Promise<Server> =>
  new Server(await start("server", { config }));

/** Three primaries. */
export const startCluster = async (): Promise<Server[]> => (await start("cluster")).nodes.map((node: Place) => new Server(node));

export async function nodeOf(cluster: readonly Server[], key: string): Promise<Server> {
  const some = cluster[0];
  assert(some);
  const slot = (await some.redis.call("CLUSTER", "KEYSLOT", key)) as number;
  const node = cluster[Math.floor((slot * 3) / 16_384)];
  assert(node);
  return node;
}
