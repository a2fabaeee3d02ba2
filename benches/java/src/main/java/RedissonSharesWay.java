import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RReadWriteLock and RPermitExpirableSemaphore as they ship, one client for all contenders,
 * with a lease as {@link RedissonWay} gives it.
 */
final class RedissonSharesWay implements Way {
    private final RedissonClient client;
    private final Shares shares;

    RedissonSharesWay(int port, Shares shares) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        this.client = Redisson.create(config);
        this.shares = shares;
    }

    @Override
    public Shares shares() {
        return shares;
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
    public Handle handle(String key, int contender) {
        return shares == Shares.PERMITS_OF_EIGHT ? permit(key) : readOrWrite(key, contender);
    }

    private Handle permit(String key) {
        RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(key);
        return new Handle() {
            private String permit;

            @Override
            public void acquire() throws InterruptedException {
                permit = semaphore.acquire(LEASE_MS, TimeUnit.MILLISECONDS);
            }

            @Override
            public void release() {
                semaphore.release(permit);
            }
        };
    }

    private Handle readOrWrite(String key, int contender) {
        RReadWriteLock both = client.getReadWriteLock(key);
        RLock readers = both.readLock();
        RLock writers = both.writeLock();
        return new Handle() {
            private long calls;
            private RLock held;

            @Override
            public void acquire() {
                held = shares.writes(contender, calls++) ? writers : readers;
                held.lock(LEASE_MS, TimeUnit.MILLISECONDS);
            }

            @Override
            public void release() {
                held.unlock();
            }
        };
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
