import java.time.Duration;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.providers.PooledConnectionProvider;
import redislock.JedisLockServer;
import redislock.RedisLocks;
import redislock.RedisLocks.RedisLock;

/** This project's client on Jedis, as docs/clients.md shows it: one for all contenders. */
final class ClientWay implements Way {
    private final HostAndPort address;
    private final PooledConnectionProvider connections;
    private final RedisLocks locks;

    ClientWay(int port) {
        JedisClientConfig config = DefaultJedisClientConfig.builder().build();
        address = new HostAndPort("127.0.0.1", port);
        connections = new PooledConnectionProvider(address, config);
        locks = new RedisLocks(
                new JedisLockServer(connections, config), "contenders", Duration.ofMillis(LEASE_MS));
    }

    @Override
    public void prepare(int contenders, String[] keys) {
        try (RedisClient client = RedisClient.builder().hostAndPort(address).build()) {
            for (String key : keys) {
                client.del(key);
            }
        }
    }

    @Override
    public Handle handle(String key, int contender) {
        RedisLock lock = locks.get(key);
        return new Handle() {
            @Override
            public void acquire() {
                lock.lock();
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    @Override
    public void close() {
        locks.close();
        connections.close();
    }
}
