package redislock;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
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
        Connected connect(Topology topology, int port, Duration lease) {
            JedisClientConfig config = DefaultJedisClientConfig.builder().timeoutMillis(TIMEOUT_MS).build();
            GenericObjectPoolConfig<Connection> pool = new GenericObjectPoolConfig<>();
            pool.setMaxTotal(2);
            HostAndPort address = new HostAndPort("127.0.0.1", port);
            ConnectionProvider connections = switch (topology) {
                case SINGLE -> new PooledConnectionProvider(address, config, pool);
                case SENTINEL -> new SentineledConnectionProvider("primary", config, pool, Set.of(address), config);
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
        Connected connect(Topology topology, int port, Duration lease) {
            LettuceClientConfiguration client = LettuceClientConfiguration.builder()
                    .commandTimeout(Duration.ofMillis(TIMEOUT_MS)).shutdownTimeout(Duration.ZERO).build();
            Set<String> address = Set.of("127.0.0.1:" + port);
            LettuceConnectionFactory connections = switch (topology) {
                case SINGLE -> new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", port), client);
                case SENTINEL -> new LettuceConnectionFactory(new RedisSentinelConfiguration("primary", address), client);
                case CLUSTER -> new LettuceConnectionFactory(new RedisClusterConfiguration(address), client);
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

    abstract Connected connect(Topology topology, int port, Duration lease);
}
