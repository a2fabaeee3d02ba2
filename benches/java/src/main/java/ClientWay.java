import io.github.redislock.Locks;
import io.github.redislock.RedisLock;
import io.github.redislock.jedis.JedisServer;
import java.time.Duration;
import redis.clients.jedis.RedisClient;

/** This project's client on Jedis, as docs/clients.md shows it: one for all contenders. */
final class ClientWay implements Way {
    private final int port;
    private final Locks locks;

    ClientWay(int port) {
        this.port = port;
        locks = Locks.builder(JedisServer.of("127.0.0.1", port)).service("contenders")
                .lease(Duration.ofMillis(LEASE_MS)).build();
    }

    @Override
    public void prepare(int contenders, String[] keys) {
        try (RedisClient client = RedisClient.builder().hostAndPort("127.0.0.1", port).build()) {
            for (String key : keys) {
                client.del(key);
            }
        }
    }

    @Override
    public Handle handle(String key) {
        RedisLock lock = locks.get(key);
        return alone -> lock.lock()::release;
    }

    @Override
    public void close() {
        locks.close();
    }
}
