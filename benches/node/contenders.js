// Contenders for locks on one server, through ioredis, as benches/src/contenders/mod.rs describes them.

import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import redlock from "redlock";
import { Locks } from "redis-lock-client";

const Redlock = redlock.default ?? redlock;
const [name, key] = process.argv.slice(3);
const [port, , , contenders, locks, held, lease] = process.argv.slice(2).map(Number);

// Each way gives a contender's view of a lock: it takes the lock, works, and gives it back.
const ways = {
  // This project's client, as its README shows it.
  client() {
    const all = new Locks(new Redis(port), { service: "contenders", lease });
    return (key) => {
      const lock = all.lock(key);
      return (work) => lock.run(work);
    };
  },

  // LOCK.ACQUIRE and LOCK.RELEASE and nothing else, each contender on a connection that is kept: a call that
  // waits in the server has it to itself.
  commands: () => (key) => {
    const redis = new Redis(port);
    const owner = randomUUID();
    return async (work) => {
      await redis.call("LOCK.ACQUIRE", key, owner, "PX", lease, "BLOCK", 0);
      await work();
      await redis.call("LOCK.RELEASE", key, owner);
    };
  },

  // Redlock as it ships, on one server: a contender that finds the lock taken asks again after about 200 ms. Only
  // that it gives up after 10 times is lifted, because the others never do.
  redlock() {
    const all = new Redlock([new Redis(port)], { retryCount: -1 });
    return (key) => async (work) => {
      const lock = await all.acquire([key], lease);
      await work();
      await lock.release();
    };
  },
};

// A turn: until its end each contender repeatedly takes a lock, holds it, gives it back and rests.
async function compete(handles, seconds) {
  let over = false;
  const errors = [];
  const began = process.hrtime.bigint();
  const now = () => Number(process.hrtime.bigint() - began);
  // Of each grant: when the contender asked, had the grant, and sent the release.
  const contend = async (handle) => {
    const times = [];
    while (!over) {
      const asked = now();
      const work = async () => {
        const granted = now();
        if (held) await pause(held);
        times.push(asked, granted, now());
      };
      await handle(work).catch((error) => errors.push(error));
      if (held) await pause(held);
    }
    return times;
  };
  const all = handles.map(contend);
  await pause(seconds * 1000);
  over = true;
  const lasted = now() / 1e9;
  const times = await Promise.all(all);
  if (errors.length) console.error(errors[0]);
  return { began: Number(began), seconds: lasted, errors: errors.length, times };
}

const handle = ways[name]();
const handles = Array.from({ length: contenders }, (_, number) => handle(`${key}:${number % locks}`));
console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await compete(handles, Number(line))));
}
process.exit(0);
