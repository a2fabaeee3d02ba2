// Ten exports, of which at most three run at the same time, in all processes together.
import { setTimeout } from "node:timers/promises";

import { Redis } from "ioredis";
import { Locks } from "redis-lock-client";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1");
const locks = new Locks(redis, { service: "exports" });

const exported = Array.from({ length: 10 }, () =>
  locks.permit("lock:exports", { of: 3 }).run(async () => {
    const running = await redis.incr("running");
    await setTimeout(50);
    await redis.decr("running");
    return running;
  }));
const running = await Promise.all(exported);
console.log(`${running.length} exports, at most ${Math.max(...running)} at a time`);
await locks.close();
redis.disconnect();
