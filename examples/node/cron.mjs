// A job that cron starts on several machines at the same minute: one of them does it.
import { Redis } from "ioredis";
import { Locks } from "redis-lock-client";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1");
const locks = new Locks(redis, { service: "report" });

const grant = await locks.lock("lock:report").tryAcquire();
if (grant) {
  await redis.incr("reports");
  // The clocks of the machines differ. So the lock stays for half a minute, after which all have started. If the work
  // fails, it does not get here, and the lock is free a lease later.
  await grant.detach(30_000);
  console.log("done");
} else {
  console.error("another machine does it");
  process.exitCode = 1;
}
await locks.close();
redis.disconnect();
