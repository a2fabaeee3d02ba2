package programs;

import io.github.redislock.Grant;
import io.github.redislock.LockLostException;
import java.sql.Connection;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

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
            Grant lock = redis.locks().get("lock:{order}").waiting(Duration.ofMinutes(1)).lockInterruptibly();
            long token = lock.token();
            List<Sale> sales = Sale.ways("lock:{order}", token, name);
            Map<String, OptionalLong> free = new HashMap<>();
            for (Sale sale : sales) {
                free.put(sale.name(), sale.claim(database));
            }
            Main.print(redis, Map.of("event", "held", "token", token));
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
                lock.release();
            } catch (LockLostException e) {
                // That is what this program is about.
            }
            return outcome;
        }
    }
}
