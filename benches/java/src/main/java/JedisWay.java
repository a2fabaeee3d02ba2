import java.util.UUID;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.Pool;
import redis.clients.jedis.util.SafeEncoder;

/**
 * The ways of locking through Jedis. A call that waits in the server has its connection to itself, so the pool
 * has one for each contender.
 */
abstract class JedisWay implements Way {
    private final int port;
    private int connections;
    protected RedisClient client;

    private JedisWay(int port) {
        this.port = port;
    }

    @Override
    public void prepare(int contenders, String[] keys) {
        if (connections != contenders) {
            close();
            connect(contenders);
        }
        for (String key : keys) {
            client.del(key);
        }
    }

    private void connect(int contenders) {
        ConnectionPoolConfig config = new ConnectionPoolConfig();
        config.setMaxTotal(contenders);
        config.setMaxIdle(contenders);
        config.setMinIdle(contenders);
        client = RedisClient.builder()
                .hostAndPort(new HostAndPort("127.0.0.1", port))
                .poolConfig(config)
                .build();
        Pool<Connection> pool = client.getPool();
        try {
            pool.preparePool();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
        connections = contenders;
    }

    @Override
    public void close() {
        if (client != null) {
            client.close();
            client = null;
        }
    }

    /** LOCK.ACQUIRE, of a share where the contest asks for one, and LOCK.RELEASE, and nothing else. */
    static final class Commands extends JedisWay {
        private static final ProtocolCommand ACQUIRE = command("LOCK.ACQUIRE");
        private static final ProtocolCommand RELEASE = command("LOCK.RELEASE");
        private static final String LIMIT = Integer.toString(Shares.PERMITS);
        private static final String LEASE = Integer.toString(LEASE_MS);

        private final Shares shares;

        Commands(int port, Shares shares) {
            super(port);
            this.shares = shares;
        }

        @Override
        public Handle handle(String key) {
            String owner = UUID.randomUUID().toString();
            String[] one = {key, owner, "PX", LEASE, "BLOCK", "0"};
            String[] shared = shares == Shares.PERMITS_OF_EIGHT
                    ? new String[] {key, owner, "LIMIT", LIMIT, "PX", LEASE, "BLOCK", "0"}
                    : new String[] {key, owner, "SHARED", "PX", LEASE, "BLOCK", "0"};
            return alone -> {
                if (client.sendBlockingCommand(ACQUIRE, alone ? one : shared) == null) {
                    throw new IllegalStateException("no grant");
                }
                return () -> client.sendCommand(RELEASE, key, owner);
            };
        }

        private static ProtocolCommand command(String name) {
            byte[] raw = SafeEncoder.encode(name);
            return () -> raw;
        }
    }

    /**
     * A token in a list: no lock, for it has no owner and no lease, but the least that passing
     * something on can cost.
     */
    static final class Baton extends JedisWay {
        Baton(int port) {
            super(port);
        }

        @Override
        public void prepare(int contenders, String[] keys) {
            super.prepare(contenders, keys);
            for (String key : keys) {
                client.rpush(key, "baton");
            }
        }

        @Override
        public Handle handle(String key) {
            return alone -> {
                client.blpop(0, key);
                return () -> client.rpush(key, "baton");
            };
        }
    }
}
