package examples;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import redis.clients.jedis.RedisClient;

/** Twenty buyers at once buy from a stock of ten: it is sold exactly to zero. */
public class Stock {
    static final URI SERVER = URI.create(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379"));

    static boolean buy(RedisClient redis, Locks locks, int buyer) throws InterruptedException {
        try (Grant grant = locks.get("lock:stock").lock()) {
            int left = Integer.parseInt(redis.get("stock"));
            if (left == 0) {
                return false;
            }
            Thread.sleep(10); // without the lock, others would sell the same piece now
            redis.set("stock", Integer.toString(left - 1));
            redis.rpush("sold", Integer.toString(buyer));
            return true;
        }
    }

    public static void main(String[] arguments) throws Exception {
        AtomicInteger bought = new AtomicInteger();
        AtomicInteger late = new AtomicInteger();
        ExecutorService buyers = Executors.newFixedThreadPool(20);
        try (RedisClient redis = RedisClient.create(SERVER);
                Locks locks = Locks.of(JedisServer.of(SERVER.getHost(), SERVER.getPort()), "stock")) {
            redis.set("stock", "10");
            List<Callable<Integer>> sales = new ArrayList<>();
            for (int number = 0; number < 20; number++) {
                int buyer = number;
                sales.add(() -> (buy(redis, locks, buyer) ? bought : late).incrementAndGet());
            }
            for (Future<Integer> sale : buyers.invokeAll(sales)) {
                sale.get();
            }
        } finally {
            buyers.shutdown();
        }
        System.out.printf("%s bought, %s too late%n", bought, late);
    }
}
