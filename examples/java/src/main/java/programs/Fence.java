package programs;

import java.sql.Connection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import redislock.LockLostException;
import redislock.RedisLocks.RedisLock;

/** Writes without a look at its lock: what is written to has to see that it comes too late. */
final class Fence {
    private static final String SET_STATE = """
            redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
            redis.call('SET', KEYS[2], ARGV[2])
            """;

    private Fence() {}

    static Map<String, Object> run(Redis redis, Main.Options options) throws Exception {
        String name = options.text("name");
        long workMs = options.number("work-ms");
        try (Connection database = Sale.open(options.text("sql"))) {
            RedisLock lock = redis.locks().get("lock:{order}");
            if (!lock.tryLock(60, TimeUnit.SECONDS)) {
                throw new TimeoutException("no lock");
            }
            long token = lock.token();
            List<Sale> sales = Sale.ways("lock:{order}", token, name);
            Map<String, OptionalLong> free = new HashMap<>();
            for (Sale sale : sales) {
                free.put(sale.name(), sale.claim(database));
            }
            Main.print(redis.locks(), Map.of("event", "held", "token", token));
            Thread.sleep(workMs);

            boolean inRedis = redis.write(SET_STATE, List.of("lock:{order}", "{order}:state"), token, name);
            Map<String, Object> outcome = new HashMap<>(Map.of("redis", inRedis ? "written" : "refused"));
            for (Sale sale : sales) {
                OptionalLong left = free.get(sale.name());
                if (left.isPresent() && left.getAsLong() == 0) {
                    outcome.put(sale.name(), "sold");
                } else {
                    outcome.put(sale.name(), left.isPresent() && sale.sell(database) ? "written" : "refused");
                }
            }
            try {
                lock.unlock();
            } catch (LockLostException e) {
                // That is what this program is about.
            }
            return outcome;
        }
    }
}
