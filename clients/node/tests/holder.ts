/** A process that holds the lock and says so, and releases on SIGTERM. Arguments: port, lease. */

import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import { Locks } from "../src/redis-lock.js";

const [port, lease] = process.argv.slice(2).map(Number);
const redis = new Redis({ port });
const locks = new Locks(redis, "test");
let ends = false;
process.once("SIGTERM", () => {
  ends = true;
  void locks.close().then(() => process.exit(143));
});
await locks.withLock("lock:orders:42", { lease, wait: 60_000 }, async () => {
  console.log("held");
  await pause(60_000);
}).catch((error) => { if (!ends) throw error; });
