// A user clicks twice: the order is paid once, and the second request is told so.
import { setTimeout } from "node:timers/promises";

import { Redis } from "ioredis";
import { LockBusy, Locks } from "redis-lock-client";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1");
const locks = new Locks(redis, { service: "shop" });

async function submit(order) {
  try {
    return await locks.lock(`lock:order:${order}`, { wait: 0 }).run(async () => { // now or never
      if (await redis.exists(`order:${order}`)) return "paid before";
      await setTimeout(500);
      await redis.incr("payments");
      await redis.set(`order:${order}`, "paid");
      return "paid";
    });
  } catch (error) {
    if (error instanceof LockBusy) return "in progress"; // for example status 409
    throw error;
  }
}

for (const answer of await Promise.all([submit(42), submit(42)])) console.log(answer);
console.log(await submit(42));
await locks.close();
redis.disconnect();
