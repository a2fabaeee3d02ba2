// A holder is suspended for longer than its lease. Its write comes too late, and PostgreSQL refuses it.
import { Redis } from "ioredis";
import pg from "pg";
import { Locks } from "redis-lock-client";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1");
const locks = new Locks(redis, { service: "seats" });
const database = new pg.Client(process.env.DATABASE_URL ?? "postgres://127.0.0.1");
await database.connect();
await database.query("CREATE TABLE seats (id int, buyer text, fence bigint); INSERT INTO seats VALUES (1, NULL, 0)");

const late = "too late, a newer holder has claimed the seat";

/** Puts the token into the row, and then reads. A holder with a lower token cannot write from now on. */
async function claim(token) {
  const claimed = await database.query("UPDATE seats SET fence = $1 WHERE id = 1 AND fence <= $1", [token]);
  if (claimed.rowCount === 0) return late;
  const { rows } = await database.query("SELECT buyer FROM seats WHERE id = 1");
  return rows[0].buyer === null ? "free" : "taken";
}

/** Writes, unless somebody else has claimed the seat since. */
async function sell(buyer, token) {
  const sold = await database.query("UPDATE seats SET buyer = $1 WHERE id = 1 AND fence = $2", [buyer, token]);
  return sold.rowCount === 0 ? late : "sold";
}

const slow = await locks.lock("lock:seat:1", { fixed: 1000 }).acquire();
console.log("slow:", await claim(slow.token));
// Here slow is suspended: its lease ends, and the next one gets the lock.
const quick = await locks.lock("lock:seat:1").acquire();
console.log("quick:", await claim(quick.token));
console.log("quick:", await sell("quick", quick.token));
console.log("slow:", await sell("slow", slow.token));

await quick.release();
await locks.close();
redis.disconnect();
await database.end();
