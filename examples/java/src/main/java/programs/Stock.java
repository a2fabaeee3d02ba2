package programs;

import io.github.redislock.Grant;
import io.github.redislock.LockLostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/** Sells to many buyers at a time, until nothing is left. */
final class Stock {
    private static final String SELL = """
            redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
            redis.call('SET', KEYS[2], ARGV[2])
            redis.call('RPUSH', KEYS[3], ARGV[3])
            """;

    private final Redis redis;
    private final AtomicInteger sold = new AtomicInteger();
    private final AtomicInteger refused = new AtomicInteger();
    private final AtomicInteger stale = new AtomicInteger();

    private Stock(Redis redis) {
        this.redis = redis;
    }

    static Map<String, Object> run(Redis redis, Main.Options options) throws Exception {
        Stock stock = new Stock(redis);
        int buyers = (int) options.number("buyers");
        ExecutorService threads = Executors.newFixedThreadPool(Math.max(1, buyers));
        List<Future<?>> all = new ArrayList<>();
        for (int n = 1; n <= buyers; n++) {
            String buyer = options.text("name") + "-" + n;
            all.add(threads.submit(() -> {
                while (!stock.serve(buyer)) {
                    stock.stale.incrementAndGet();
                }
                return null;
            }));
        }
        for (Future<?> one : all) {
            one.get();
        }
        return Map.of("sold", stock.sold, "refused", stock.refused, "stale_refused", stock.stale);
    }

    /** Gives the buyer an answer, or false when the lock was lost before. */
    private boolean serve(String buyer) throws Exception {
        Grant lock = redis.locks().get("lock:{stock}").waiting(Duration.ofMinutes(1)).lockInterruptibly();
        try {
            int left = Integer.parseInt(redis.get("{stock}:left"));
            if (left == 0) {
                refused.incrementAndGet();
                return true;
            }
            Thread.sleep(2);
            List<String> keys = List.of("lock:{stock}", "{stock}:left", "{stock}:sold");
            if (!redis.write(SELL, keys, lock.token(), left - 1, buyer)) {
                return false;
            }
            sold.incrementAndGet();
            return true;
        } finally {
            try {
                lock.release();
            } catch (LockLostException e) {
                // What was written in time counts, and the fence has judged that.
            }
        }
    }
}
