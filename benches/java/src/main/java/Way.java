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
    /** Of a semaphore. */
    int PERMITS = 8;

    /** A contender's own view of a lock; used by one thread. */
    Handle handle(String key);

    /** Takes a lock, alone or to share it; to close it gives the lock back. */
    interface Handle {
        AutoCloseable take(boolean alone) throws Exception;
    }

    /** Whether this call of a contender is to have the lock alone. */
    static boolean writes(String name, int contender, long call) {
        return switch (name.substring(name.indexOf('-') + 1)) {
            // Of ten contenders nine only read, and one only writes.
            case "threads" -> contender % 10 == 9;
            // Of ten calls of each contender nine read, and one writes.
            case "calls" -> (contender + call) % 10 == 9;
            case "permits" -> false;
            default -> true;
        };
    }

    static Way named(String name, int port, int contenders, int leaseMs) {
        boolean isLimited = name.endsWith("-permits");
        return switch (name.replaceAll("-.*", "")) {
            case "client" -> client(port, leaseMs, isLimited);
            case "commands" -> commands(jedis(port, contenders), leaseMs, isLimited);
            case "baton" -> baton(jedis(port, contenders));
            default -> redisson(name, redisson(port), leaseMs);
        };
    }

    /** This project's client on Jedis, as docs/clients.md shows it: one for all contenders. */
    private static Way client(int port, int leaseMs, boolean isLimited) {
        Locks locks = Locks.builder(JedisServer.of("127.0.0.1", port)).service("contenders")
                .lease(Duration.ofMillis(leaseMs)).build();
        return key -> {
            RedisLock lock = locks.get(key);
            RedisLock shared = isLimited ? lock.permits(PERMITS) : lock.shared();
            return alone -> (alone ? lock : shared).lock()::release;
        };
    }

    /** LOCK.ACQUIRE, of a share where the contest asks for one, and LOCK.RELEASE, and nothing else. */
    private static Way commands(RedisClient client, int leaseMs, boolean isLimited) {
        ProtocolCommand acquire = () -> SafeEncoder.encode("LOCK.ACQUIRE");
        ProtocolCommand release = () -> SafeEncoder.encode("LOCK.RELEASE");
        String lease = Integer.toString(leaseMs);
        return key -> {
            String owner = UUID.randomUUID().toString();
            String[] one = {key, owner, "PX", lease, "BLOCK", "0"};
            String[] shared = isLimited
                    ? new String[] {key, owner, "LIMIT", Integer.toString(PERMITS), "PX", lease, "BLOCK", "0"}
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

    /** Without a lease, the watchdog renews one of 30 seconds. */
    private static Way redisson(String name, RedissonClient client, int leaseMs) {
        return key -> switch (name) {
            case "rlock" -> handle(client.getLock(key), client.getLock(key), leaseMs);
            case "rfair" -> handle(client.getFairLock(key), client.getFairLock(key), leaseMs);
            case "redisson-permits" -> {
                RPermitExpirableSemaphore semaphore = client.getPermitExpirableSemaphore(key);
                semaphore.trySetPermits(PERMITS);
                yield alone -> {
                    String permit = semaphore.acquire(leaseMs, TimeUnit.MILLISECONDS);
                    return () -> semaphore.release(permit);
                };
            }
            default -> {
                RReadWriteLock both = client.getReadWriteLock(key);
                yield handle(both.writeLock(), both.readLock(), leaseMs);
            }
        };
    }

    private static Handle handle(RLock writers, RLock readers, int leaseMs) {
        return alone -> {
            RLock lock = alone ? writers : readers;
            lock.lock(leaseMs, TimeUnit.MILLISECONDS);
            return lock::unlock;
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
    private static RedissonClient redisson(int port) {
        Config config = new Config();
        config.useSingleServer()
                .setAddress("redis://127.0.0.1:" + port)
                .setSubscriptionConnectionPoolSize(100);
        return Redisson.create(config);
    }
}
