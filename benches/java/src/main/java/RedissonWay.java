import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's locks as it ships, one client for all contenders: its threads share the connections
 * of its pool, and one subscription tells all of them that a lock is free. A lease is given, so that
 * no timer renews it.
 */
final class RedissonWay implements Way {
    private final RedissonClient client;
    private final boolean fair;

    RedissonWay(int port, boolean fair) {
        Config config = new Config();
        // A fair lock subscribes for each thread that waits. The default pool, 50 connections of five
        // subscriptions, is too small for 256 threads: they would wait forever.
        config.useSingleServer()
                .setAddress("redis://127.0.0.1:" + port)
                .setSubscriptionConnectionPoolSize(100);
        this.client = Redisson.create(config);
        this.fair = fair;
    }

    @Override
    public void prepare(int contenders, String[] keys) {
        for (String key : keys) {
            client.getKeys().delete(key);
        }
    }

    @Override
    public Handle handle(String key, int contender) {
        RLock lock = fair ? client.getFairLock(key) : client.getLock(key);
        return new Handle() {
            @Override
            public void acquire() {
                lock.lock(LEASE_MS, TimeUnit.MILLISECONDS);
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
