import io.github.redislock.Locks;
import io.github.redislock.RedisLock;
import io.github.redislock.jedis.JedisServer;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.SafeEncoder;

/** A way of locking, which is connected. */
interface Way {
    /** How long a grant lasts at most. */
    int LEASE_MS = 30_000;

    /** A contender's own view of a lock; used by one thread. */
    Handle handle(String key);

    /** Takes a lock, alone or to share it. */
    interface Handle {
        Release take(boolean alone) throws Exception;
    }

    /** Gives it back. */
    interface Release {
        void run() throws Exception;
    }

    static Way named(String name, int port, int contenders) {
        boolean isLimited = Shares.named(name) == Shares.PERMITS_OF_EIGHT;
        return switch (name) {
            case "baton" -> baton(jedis(port, contenders));
            case "rlock", "rfair" -> {
                RedissonClient redisson = redisson(port);
                yield key -> {
                    RLock lock = name.equals("rlock") ? redisson.getLock(key) : redisson.getFairLock(key);
                    return handle(lock, lock);
                };
            }
            case "redisson-permits" -> permits(redisson(port));
            case "redisson-threads", "redisson-calls" -> {
                RedissonClient redisson = redisson(port);
                yield key -> {
                    RReadWriteLock both = redisson.getReadWriteLock(key);
                    return handle(both.writeLock(), both.readLock());
                };
            }
            default -> name.startsWith("client")
                    ? client(port, isLimited)
                    : commands(jedis(port, contenders), isLimited);
        };
    }

    /** This project's client on Jedis, as docs/clients.md shows it: one for all contenders. */
    private static Way client(int port, boolean isLimited) {
        Locks locks = Locks.builder(JedisServer.of("127.0.0.1", port)).service("contenders")
                .lease(Duration.ofMillis(LEASE_MS)).build();
        return key -> {
            RedisLock lock = locks.get(key);
            RedisLock shared = isLimited ? lock.permits(Shares.PERMITS) : lock.shared();
            return alone -> (alone ? lock : shared).lock()::release;
        };
    }

    /** LOCK.ACQUIRE, of a share where the contest asks for one, and LOCK.RELEASE, and nothing else. */
    private static Way commands(RedisClient client, boolean isLimited) {
        byte[] acquireName = SafeEncoder.encode("LOCK.ACQUIRE");
        byte[] releaseName = SafeEncoder.encode("LOCK.RELEASE");
        ProtocolCommand acquire = () -> acquireName;
        ProtocolCommand release = () -> releaseName;
        String lease = Integer.toString(LEASE_MS);
        return key -> {
            String owner = UUID.randomUUID().toString();
            String[] one = {key, owner, "PX", lease, "BLOCK", "0"};
            String[] shared = isLimited
                    ? new String[] {key, owner, "LIMIT", Integer.toString(Shares.PERMITS), "PX", lease, "BLOCK", "0"}
                    : new String[] {key, owner, "SHARED", "PX", lease, "BLOCK", "0"};
            return alone -> {
                if (client.sendBlockingCommand(acquire, alone ? one : shared) == null) {
                    throw new IllegalStateException("no grant");
                }
                return () -> client.sendCommand(release, key, owner);
            };
        };
    }

    /**
     * A token in a list: no lock, for it has no owner and no lease, but the least that passing something on can cost.
     */
    private static Way baton(RedisClient client) {
        return key -> {
            if (client.llen(key) == 0) {
                client.rpush(key, "baton");
            }
            return alone -> {
                client.blpop(0, key);
                return () -> client.rpush(key, "baton");
            };
        };
    }

    private static Handle handle(RLock writers, RLock readers) {
        return alone -> {
            RLock lock = alone ? writers : readers;
            lock.lock(LEASE_MS, TimeUnit.MILLISECONDS);
            return lock::unlock;
        };
    }

    private static Way permits(RedissonClient redisson) {
        return key -> {
            RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore(key);
            semaphore.trySetPermits(Shares.PERMITS);
            return alone -> {
                String permit = semaphore.acquire(LEASE_MS, TimeUnit.MILLISECONDS);
                return () -> semaphore.release(permit);
            };
        };
    }

    /** A call that waits in the server has its connection to itself, so the pool has one for each contender. */
    private static RedisClient jedis(int port, int contenders) {
        ConnectionPoolConfig config = new ConnectionPoolConfig();
        config.setMaxTotal(contenders);
        config.setMaxIdle(contenders);
        config.setMinIdle(contenders);
        RedisClient client = RedisClient.builder()
                .hostAndPort(new HostAndPort("127.0.0.1", port))
                .poolConfig(config)
                .build();
        try {
            client.getPool().preparePool();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        return client;
    }

    /**
     * Redisson as it ships, one client for all contenders: its threads share the connections of its pool, and one
     * subscription tells all of them that a lock is free. Only a fair lock subscribes for each thread that waits, for
     * which the default pool, 50 connections of five subscriptions, is too small: 256 threads would wait forever.
     */
    static RedissonClient redisson(int port) {
        Config config = new Config();
        config.useSingleServer()
                .setAddress("redis://127.0.0.1:" + port)
                .setSubscriptionConnectionPoolSize(100);
        return Redisson.create(config);
    }
}
