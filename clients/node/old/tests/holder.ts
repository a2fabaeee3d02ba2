/** A process that holds the lock and says so, and releases on SIGTERM. Arguments: port, lease. */

import { setTimeout as pause } from "node:timers/promises";
import { Redis } from "ioredis";
import { Locks } from "../src/index.ts";

const [port, lease] = process.argv.slice(2).map(Number);
if (!port || !lease) throw new TypeError("port and lease are missing");
const redis = new Redis({ port });
redis.on("error", () => {});
const locks = new Locks(redis, { service: "test" });
let ends = false;
process.once("SIGTERM", () => {
  ends = true;
  void locks.close().then(() => process.exit(143));
});
await locks.lock("lock:orders:42", { lease, wait: 60_000 }).run(async () => {
  console.log("held");
  await pause(60_000);
}).catch((error: unknown) => { if (!ends) throw error; });
