package redislock;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConfiguration;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.providers.ConnectionProvider;
import redis.clients.jedis.providers.PooledConnectionProvider;
import redis.clients.jedis.providers.SentineledConnectionProvider;

/** The clients that the tests are run with: each as an application sets it up. */
enum Client {
    JEDIS {
        @Override
        Connected connect(Topology topology, int port, Duration lease, boolean asUser) {
            JedisClientConfig asking = config(asUser ? "discovery" : null).build();
            JedisClientConfig config = config(asUser ? "application" : null)
                    .database(asUser && topology != Topology.CLUSTER ? 2 : 0).build();
            GenericObjectPoolConfig<Connection> pool = new GenericObjectPoolConfig<>();
            pool.setMaxTotal(2);
            pool.setTestOnBorrow(asUser); // by PING
            HostAndPort address = new HostAndPort("127.0.0.1", port);
            ConnectionProvider connections = switch (topology) {
                case SINGLE -> new PooledConnectionProvider(address, config, pool);
                case SENTINEL -> new SentineledConnectionProvider("lock", config, pool, Set.of(address), asking);
                case CLUSTER -> new ClusterConnectionProvider(Set.of(address), config, pool);
            };
            RedisLocks locks = new RedisLocks(new JedisLockServer(connections, config), "tests", lease);
            return new Connected(locks, () -> {
                locks.close();
                connections.close();
            });
        }
    },
    SPRING {
        @Override
        Connected connect(Topology topology, int port, Duration lease, boolean asUser) {
            var client = LettuceClientConfiguration.builder()
                    .commandTimeout(Duration.ofMillis(TIMEOUT_MS)).shutdownTimeout(Duration.ZERO);
            var single = new RedisStandaloneConfiguration("127.0.0.1", port);
            Set<String> address = Set.of("127.0.0.1:" + port);
            var sentinel = new RedisSentinelConfiguration("lock", address);
            var cluster = new RedisClusterConfiguration(address);
            if (asUser) {
                client.clientName("orders");
                List.<RedisConfiguration.WithAuthentication>of(single, sentinel, cluster).forEach(where -> {
                    where.setUsername("application");
                    where.setPassword("secret");
                });
                sentinel.setSentinelUsername("discovery");
                sentinel.setSentinelPassword("secret");
                single.setDatabase(2);
                sentinel.setDatabase(2);
            }
            LettuceConnectionFactory connections = switch (topology) {
                case SINGLE -> new LettuceConnectionFactory(single, client.build());
                case SENTINEL -> new LettuceConnectionFactory(sentinel, client.build());
                case CLUSTER -> new LettuceConnectionFactory(cluster, client.build());
            };
            var context = new AnnotationConfigApplicationContext();
            context.registerShutdownHook();
            Map<String, Object> properties = new HashMap<>(
                    Map.of("spring.application.name", "tests", "redis-lock.lease-ms", lease.toMillis()));
            context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("tests", properties));
            context.registerBean(LettuceConnectionFactory.class, () -> connections);
            context.register(SpringLocks.class);
            context.refresh();
            return new Connected(context.getBean(RedisLocks.class), context);
        }
    };

    static final int TIMEOUT_MS = 1000;

    enum Topology { SINGLE, SENTINEL, CLUSTER }

    /** Closing it is the shutdown of the application. */
    record Connected(RedisLocks locks, AutoCloseable application) {}

    Connected connect(Topology topology, int port, Duration lease) {
        return connect(topology, port, lease, false);
    }

    /** As a user: by the rules of the manual, with a name, and in database 2 where there is more than one. */
    abstract Connected connect(Topology topology, int port, Duration lease, boolean asUser);

    private static DefaultJedisClientConfig.Builder config(String user) {
        var config = DefaultJedisClientConfig.builder().timeoutMillis(TIMEOUT_MS);
        return user == null ? config : config.user(user).password("secret").clientName("orders");
    }
}
