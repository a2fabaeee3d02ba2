// Contenders for locks on one server, through ioredis. Arguments: the server's port, and the way of locking
// (client, commands, redlock).
//
// The line "open contenders locks" connects, makes the locks free and is answered "ready". Each line "run
// seconds" then is a turn of the contest, answered by a line of JSON. So whoever drives several such programs
// can let them take short turns, and can measure the server around each.

import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import redlock from "redlock";
import { Locks } from "redis-lock-client";

const Redlock = redlock.default ?? redlock;
const LEASE_MS = 30_000;

// Each way gives a contender's view of a lock: it takes the lock, works, and gives it back.
const ways = {
  // This project's client, as its README shows it.
  client(port) {
    const redis = new Redis(port);
    const locks = new Locks(redis, { service: "contenders", lease: LEASE_MS });
    return {
      handle(key) {
        const lock = locks.lock(key);
        return (work) => lock.run(work);
      },
      close: () => locks.close().then(() => redis.disconnect()),
    };
  },

  // LOCK.ACQUIRE and LOCK.RELEASE and nothing else, each contender on a connection that is kept: a call that
  // waits in the server has it to itself.
  commands(port) {
    const all = [];
    return {
      handle(key) {
        const redis = new Redis(port);
        all.push(redis);
        const owner = randomUUID();
        return async (work) => {
          await redis.call("LOCK.ACQUIRE", key, owner, "PX", LEASE_MS, "BLOCK", 0);
          work();
          await redis.call("LOCK.RELEASE", key, owner);
        };
      },
      close: () => all.forEach((redis) => redis.disconnect()),
    };
  },

  // Redlock as it ships, on one server: who finds the lock taken asks again after about 200 ms. Only that it
  // gives up after 10 times is lifted, because the others never do.
  redlock(port) {
    const redis = new Redis(port);
    const locks = new Redlock([redis], { retryCount: -1 });
    return {
      handle: (key) => async (work) => {
        const lock = await locks.acquire([key], LEASE_MS);
        work();
        await lock.release();
      },
      close: () => redis.disconnect(),
    };
  },
};

// Contenders that take a lock and give it back, over and over, until their turn is over.
class Contest {
  static async open(port, name, contenders, locks) {
    const contest = new Contest();
    contest.way = ways[name](port);
    const keys = Array.from({ length: locks }, (_, number) => `contest:${name}:${number}`);
    const redis = new Redis(port);
    await redis.del(...keys);
    redis.disconnect();
    const handle = (_, number) => contest.way.handle(keys[number % locks]);
    contest.handles = Array.from({ length: contenders }, handle);
    return contest;
  }

  async turn(seconds) {
    this.over = false;
    this.errors = [];
    this.began = process.hrtime.bigint();
    const all = this.handles.map((handle) => this.contend(handle));
    await pause(seconds * 1000);
    this.over = true;
    const lasted = this.now();
    const times = await Promise.all(all);
    if (this.errors.length) console.error(this.errors[0]);
    return { seconds: lasted / 1e9, errors: this.errors.length, times };
  }

  // The nanoseconds since the turn began.
  now() {
    return Number(process.hrtime.bigint() - this.began);
  }

  // When the contender asked, had the grant, and sent the release, over and over.
  async contend(handle) {
    const times = [];
    while (!this.over) {
      const asked = this.now();
      try {
        await handle(() => times.push(asked, this.now(), this.now()));
      } catch (error) {
        this.errors.push(error);
      }
    }
    return times;
  }
}

const [port, name] = process.argv.slice(2);
let contest;
for await (const line of createInterface({ input: process.stdin })) {
  const [task, ...numbers] = line.split(" ");
  if (task === "open") {
    await contest?.way.close();
    contest = await Contest.open(Number(port), name, ...numbers.map(Number));
    console.log("ready");
  } else {
    console.log(JSON.stringify(await contest.turn(Number(numbers[0]))));
  }
}
process.exit(0);
