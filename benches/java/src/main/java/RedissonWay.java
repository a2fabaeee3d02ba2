import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's locks and semaphores as it ships, one client for all contenders: its threads share the
 * connections of its pool, and one subscription tells all of them that a lock is free. A lease is given, so
 * that no timer renews it.
 */
final class RedissonWay implements Way {
    private final RedissonClient client;
    private final String name;
    private final Shares shares;

    RedissonWay(int port, String name, Shares shares) {
        Config config = new Config();
        // A fair lock subscribes for each thread that waits. The default pool, 50 connections of five
        // subscriptions, is too small for 256 threads: they would wait forever.
        config.useSingleServer()
                .setAddress("redis://127.0.0.1:" + port)
                .setSubscriptionConnectionPoolSize(100);
        this.client = Redisson.create(config);
        this.name = name;
        this.shares = shares;
    }

    @Override
    public void prepare(int contenders, String[] keys) {
        for (String key : keys) {
            client.getKeys().delete(key);
            if (shares == Shares.PERMITS_OF_EIGHT) {
                client.getPermitExpirableSemaphore(key).setPermits(Shares.PERMITS);
            }
        }
    }

    @Override
    public Handle handle(String key) {
        return switch (name) {
            case "rlock" -> handle(client.getLock(key), null);
            case "rfair" -> handle(client.getFairLock(key), null);
            case "redisson-permits" -> permit(client.getPermitExpirableSemaphore(key));
            default -> {
                var both = client.getReadWriteLock(key);
                yield handle(both.writeLock(), both.readLock());
            }
        };
    }

    private static Handle handle(RLock writers, RLock readers) {
        return alone -> {
            RLock lock = alone ? writers : readers;
            lock.lock(LEASE_MS, TimeUnit.MILLISECONDS);
            return lock::unlock;
        };
    }

    private static Handle permit(RPermitExpirableSemaphore semaphore) {
        return alone -> {
            String permit = semaphore.acquire(LEASE_MS, TimeUnit.MILLISECONDS);
            return () -> semaphore.release(permit);
        };
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
