/** The example programs: see examples/README.md for what each does. */

import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Redis } from "ioredis";
import { LockLost, Locks } from "redis-lock-client";

const BUY = `
  redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
  redis.call('SET', KEYS[2], ARGV[2])
  redis.call('RPUSH', KEYS[3], ARGV[3])`;
const WRITE = `
  redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
  redis.call('SET', KEYS[2], ARGV[2])`;
const STEP = `
  redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
  redis.call('SET', KEYS[2], ARGV[2])
  redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. ARGV[3])
  if ARGV[4] == '1' then redis.call('SET', KEYS[4], ARGV[3]) end`;

type Options = Record<string, string>;
const tell = (result: object) => console.log(JSON.stringify(result));
const firstWord = (error: unknown) => String((error as Error).message).split(" ", 1)[0];

/** Runs a script that writes. False when the token is not that of the current grant. */
async function written(redis: Redis, script: string, keys: string[], ...values: (string | number)[]): Promise<boolean> {
  try {
    await redis.eval(script, keys.length, ...keys, ...values);
    return true;
  } catch (error) {
    if (firstWord(error) === "FENCED") return false;
    throw error;
  }
}

async function stock(redis: Redis, locks: Locks, options: Options): Promise<void> {
  const keys = ["lock:{stock}", "{stock}:left", "{stock}:sold"];
  const counts = { sold: 0, refused: 0, stale_refused: 0 };
  const attempt = (buyer: string) =>
    locks.lock(keys[0], { wait: 60_000 }).run(async (lock) => {
      const left = Number(await redis.get(keys[1]));
      if (left === 0) return "refused";
      await pause(2);
      return (await written(redis, BUY, keys, lock.token, left - 1, buyer)) ? "sold" : "stale_refused";
    });
  const buy = async (buyer: string) => {
    for (;;) {
      try {
        const outcome = await attempt(buyer);
        counts[outcome] += 1;
        if (outcome !== "stale_refused") return;
      } catch (error) {
        if (!(error instanceof LockLost) || ends) throw error;
      }
    }
  };
  const buyers = Array.from({ length: Number(options.buyers) }, (_, number) => buy(`${options.name}-${number + 1}`));
  await Promise.all(buyers);
  tell(counts);
}

async function seat(redis: Redis, _: Locks, options: Options): Promise<void> {
  const lock = "lock:{seat}", paid = "{seat}:paid";
  // The hold is the user's, not a process's: plain commands, in which the owner is the user. Only the lease ends it.
  const owner = `seat:${options.user}`;
  const { token } = options;
  if (options.do === "hold") {
    const wait = Number(options["wait-ms"]);
    const waiting = redis.duplicate(); // a connection of its own, since the call blocks it
    const words = ["HOLDS", 1, "PX", options["lease-ms"], ...(wait ? ["BLOCK", wait] : [])];
    const grant = (await waiting.call("LOCK.ACQUIRE", lock, owner, ...words).finally(() => waiting.disconnect())) as [number] | null;
    if (!grant) {
      tell({ seat: "taken" });
    } else if (await redis.exists(paid)) {
      await redis.call("LOCK.RELEASE", lock, owner, "ALL", "TOKEN", grant[0]);
      tell({ seat: "sold" });
    } else {
      tell({ seat: "held", token: grant[0] });
    }
  } else if (options.do === "extend") {
    try {
      await redis.call("LOCK.RENEW", lock, owner, "PX", options["lease-ms"], "TOKEN", token);
      tell({ seat: "extended" });
    } catch (error) {
      if (!["NOTHELD", "NOTOWNER", "FENCED"].includes(firstWord(error))) throw error;
      tell({ seat: "lapsed" });
    }
  } else if (await written(redis, WRITE, [lock, paid], token, options.user)) {
    await redis.call("LOCK.RELEASE", lock, owner, "ALL", "TOKEN", token);
    tell({ seat: "paid" });
  } else {
    tell({ seat: "lapsed" });
  }
}

async function job(redis: Redis, locks: Locks, options: Options): Promise<void> {
  const [step, log, done] = ["step", "log", "done"].map((end) => `{job}:${options.run}:${end}`);
  const keys = ["lock:{job}", step, log, done];
  let steps = 0;
  const outcome = await locks.lock(keys[0], { wait: 60_000 }).run(async (lock) => {
    if (await redis.exists(done)) return { job: "skipped" };
    const last = Number(options.steps);
    for (let next = Number(await redis.get(step)) + 1; next <= last; next += 1) {
      await pause(Number(options["step-ms"]), undefined, { signal: lock.signal }); // works
      const { token } = lock;
      const values = [token, next, `${token} ${options.name}`, next === last ? 1 : 0];
      if (!(await written(redis, STEP, keys, ...values))) return { job: "lost", steps };
      steps += 1;
    }
    return { job: "completed", steps };
  }).catch((error) => {
    if (!(error instanceof LockLost) || ends) throw error;
    return { job: "lost", steps };
  });
  tell(outcome);
}

async function fence(redis: Redis, locks: Locks, options: Options): Promise<void> {
  const lockKey = "lock:{order}", told = (done: boolean) => (done ? "written" : "refused");
  const database = await connected(options.sql);
  let writes: Promise<object> | undefined;
  await locks.lock(lockKey, { wait: 60_000 }).run(async (lock) => {
    const { token } = lock;
    const ways = Object.entries(waysToSell(lockKey, token, options.name));
    const free = new Map<string, number | undefined>();
    for (const [name, way] of ways) free.set(name, await claimed(database, way));
    tell({ event: "held", token });
    // Not stopped by the loss: the writes are to be late, and to be refused.
    writes = pause(Number(options["work-ms"])).then(async () => {
      const state = await written(redis, WRITE, [lockKey, "{order}:state"], token, options.name);
      const outcome: Record<string, string> = { redis: told(state) };
      for (const [name, way] of ways) {
        const left = free.get(name);
        outcome[name] = left === 0 ? "sold" : told(left !== undefined && (await sold(database, way)));
      }
      return outcome;
    });
    await writes;
  }).catch((error) => {
    if (!(error instanceof LockLost) || ends) throw error; // lost: as it should be where the writes are late
  });
  tell((await writes)!);
  await database.close();
}

type Statement = [text: string, ...given: (string | number)[]];

/** A way to sell the last seat. */
interface Way {
  /** Changes no row for a token that is stale. */
  claim: Statement;
  /** How many are free. */
  free: string;
  /** The first changes no row when the claim does not stand any more. */
  sell: Statement[];
}

/** In one row that is there, in one that is not there yet, and in several tables: see docs/fencing.md. */
const waysToSell = (lock: string, token: number, buyer: string): Record<string, Way> => ({
  row: {
    claim: ["UPDATE seats SET fence = $1 WHERE id = 42 AND fence <= $1", token],
    free: "SELECT count(*) AS free FROM seats WHERE id = 42 AND buyer IS NULL",
    sell: [["UPDATE seats SET buyer = $1 WHERE id = 42 AND fence = $2", buyer, token]],
  },
  new_row: {
    claim: [`INSERT INTO bookings (id, fence) VALUES (42, $1) ON CONFLICT (id)
      DO UPDATE SET fence = excluded.fence WHERE bookings.fence <= excluded.fence`, token],
    free: "SELECT count(*) AS free FROM bookings WHERE id = 42 AND buyer IS NULL",
    sell: [["UPDATE bookings SET buyer = $1 WHERE id = 42 AND fence = $2", buyer, token]],
  },
  tables: {
    claim: [`INSERT INTO fences (name, fence) VALUES ($1, $2) ON CONFLICT (name)
      DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence`, lock, token],
    free: "SELECT free FROM stock WHERE id = 42",
    sell: [
      ["UPDATE fences SET fence = $1 WHERE fence = $1 AND name = $2", token, lock],
      ["UPDATE stock SET free = free - 1 WHERE id = 42"],
      ["INSERT INTO sales (buyer, token) VALUES ($1, $2)", buyer, token],
    ],
  },
});

interface Database {
  /** How many rows a statement has changed. */
  change(...statement: Statement): Promise<number>;
  free(query: string): Promise<number>;
  close(): Promise<void>;
}

/** Claims, and only then looks how many are free; undefined when the token is stale. */
async function claimed(database: Database, way: Way): Promise<number | undefined> {
  return (await database.change(...way.claim)) === 0 ? undefined : database.free(way.free);
}

/** False when somebody has claimed it since. */
async function sold(database: Database, way: Way): Promise<boolean> {
  const [check, ...others] = way.sell;
  await database.change("BEGIN");
  if ((await database.change(...check)) === 0) {
    await database.change("ROLLBACK");
    return false;
  }
  for (const statement of others) await database.change(...statement);
  await database.change("COMMIT");
  return true;
}

async function connected(url: string): Promise<Database> {
  if (url.startsWith("sqlite:")) {
    const { default: { Database } } = await import("node-sqlite3-wasm");
    const database = new Database(url.slice("sqlite:".length));
    database.exec("PRAGMA busy_timeout = 30000");
    return {
      change: async (text, ...given) => database.run(text, given).changes,
      free: async (query) => Number(database.get(query)!.free),
      close: async () => database.close(),
    };
  }
  const { default: { Client } } = await import("pg");
  const database = new Client(url);
  await database.connect();
  return {
    change: async (text, ...given) => (await database.query(text, given)).rowCount ?? 0,
    free: async (query) => Number((await database.query(query)).rows[0].free),
    close: () => database.end(),
  };
}

/** The options that a program takes; a seat's depend on what is to be done. */
const needs: Record<string, [run: typeof stock, options: string[]]> = {
  stock: [stock, ["name", "buyers"]],
  "seat hold": [seat, ["do", "user", "lease-ms", "wait-ms"]],
  "seat extend": [seat, ["do", "user", "token", "lease-ms"]],
  "seat pay": [seat, ["do", "user", "token"]],
  job: [job, ["name", "run", "steps", "step-ms", "lease-ms"]],
  fence: [fence, ["name", "sql", "lease-ms", "work-ms"]],
};
const numbers = ["port", "buyers", "steps", "step-ms", "lease-ms", "wait-ms", "work-ms", "token"];

function understood(): [typeof stock, Options] {
  const names = new Set(["port", ...Object.values(needs).flatMap(([, options]) => options)]);
  const shape = Object.fromEntries([...names].map((name) => [name, { type: "string" as const }]));
  const { values, positionals } = parseArgs({ options: shape, allowPositionals: true });
  const options = values as Options;
  const program = needs[positionals.concat(options.do ?? []).join(" ")];
  if (!program) throw new TypeError("usage: stock|seat|job|fence --port P ...");
  for (const name of ["port", ...program[1]]) {
    if (options[name] === undefined) throw new TypeError(`--${name} is missing`);
    if (numbers.includes(name) && !/^\d+$/.test(options[name])) throw new TypeError(`--${name} takes a number`);
  }
  return [program[0], options];
}

let ends = false;
let run: typeof stock, options: Options;
try {
  [run, options] = understood();
} catch (error) {
  console.error((error as Error).message);
  process.exit(2);
}
const redis = new Redis({ port: Number(options.port) });
redis.on("error", () => {}); // what is asked of it fails
const lease = options.do ? undefined : options["lease-ms"];
const locks = new Locks(redis, { service: "examples", lease: lease ? Number(lease) : undefined });
process.once("SIGTERM", () => {
  ends = true;
  void locks.close().then(() => process.exit(143));
});
try {
  await run(redis, locks, options);
  await locks.close();
  redis.disconnect();
} catch (error) {
  if (!ends) {
    console.error(error);
    process.exit(1);
  }
}
