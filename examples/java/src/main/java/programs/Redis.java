package programs;

import io.lettuce.core.RedisCommandExecutionException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.env.MapPropertySource;
import org.springframework.data.redis.RedisSystemException;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.providers.PooledConnectionProvider;
import redislock.JedisLockServer;
import redislock.LettuceLockServer;
import redislock.LockServer;
import redislock.RedisLocks;
import redislock.SpringLocks;

/** What the programs need of Redis, by either client. */
interface Redis {
    RedisLocks locks();

    /** For those who speak to the server themselves. */
    LockServer server();

    String get(String key);

    boolean exists(String key);

    /** Runs a script that checks a token first. False when it says FENCED. */
    boolean write(String script, List<String> keys, Object... arguments);

    static Redis connect(String client, int port, Main.Options options) {
        long leaseMs = options.values().containsKey("lease-ms") ? options.number("lease-ms") : 10_000;
        return switch (client) {
            case "jedis" -> new OnJedis(port, Duration.ofMillis(leaseMs));
            case "spring" -> new OnSpring(port, leaseMs);
            default -> throw new Main.WrongArguments("jedis or spring");
        };
    }

    /** As a program without a framework does it. */
    final class OnJedis implements Redis {
        private final RedisClient redis;
        private final LockServer server;
        private final RedisLocks locks;

        OnJedis(int port, Duration lease) {
            var address = new HostAndPort("127.0.0.1", port);
            var config = DefaultJedisClientConfig.builder().build();
            redis = RedisClient.builder().hostAndPort(address).clientConfig(config).build();
            server = new JedisLockServer(new PooledConnectionProvider(address, config), config);
            locks = new RedisLocks(server, "examples", lease);
        }

        @Override
        public RedisLocks locks() {
            return locks;
        }

        @Override
        public LockServer server() {
            return server;
        }

        @Override
        public String get(String key) {
            return redis.get(key);
        }

        @Override
        public boolean exists(String key) {
            return redis.exists(key);
        }

        @Override
        public boolean write(String script, List<String> keys, Object... arguments) {
            try {
                redis.eval(script, keys, List.of(arguments).stream().map(Object::toString).toList());
                return true;
            } catch (JedisDataException e) {
                if (e.getMessage().startsWith("FENCED ")) {
                    return false;
                }
                throw e;
            }
        }
    }

    /** As a Spring application does it: RedisLocks is a bean. */
    final class OnSpring implements Redis {
        private final AnnotationConfigApplicationContext context = new AnnotationConfigApplicationContext();
        private final StringRedisTemplate template;

        OnSpring(int port, long leaseMs) {
            context.registerShutdownHook();
            context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("program",
                    Map.of("spring.application.name", "examples", "redis-lock.lease-ms", leaseMs)));
            context.registerBean(LettuceConnectionFactory.class,
                    () -> new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", port)));
            context.registerBean(StringRedisTemplate.class,
                    () -> new StringRedisTemplate(context.getBean(LettuceConnectionFactory.class)));
            context.register(SpringLocks.class);
            context.refresh();
            template = context.getBean(StringRedisTemplate.class);
        }

        @Override
        public RedisLocks locks() {
            return context.getBean(RedisLocks.class);
        }

        @Override
        public LockServer server() {
            return context.getBean(LettuceLockServer.class);
        }

        @Override
        public String get(String key) {
            return template.opsForValue().get(key);
        }

        @Override
        public boolean exists(String key) {
            return template.hasKey(key);
        }

        @Override
        public boolean write(String script, List<String> keys, Object... arguments) {
            try {
                Object[] texts = List.of(arguments).stream().map(Object::toString).toArray();
                template.execute(RedisScript.of(script), keys, texts);
                return true;
            } catch (RedisSystemException e) {
                if (e.getCause() instanceof RedisCommandExecutionException cause
                        && cause.getMessage().startsWith("FENCED ")) {
                    return false;
                }
                throw e;
            }
        }
    }
}
