package programs;

import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import io.github.redislock.lettuce.LettuceServer;
import io.github.redislock.spi.LockServer;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.sync.RedisCommands;
import java.time.Duration;
import java.util.List;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisDataException;

/** What the programs need of Redis, by either client. */
interface Redis {
    Locks locks();

    String get(String key);

    boolean exists(String key);

    /** Runs a script that checks a token first. False when it says FENCED. */
    boolean write(String script, List<String> keys, Object... arguments);

    static Redis connect(String client, int port, Main.Options options) {
        long leaseMs = options.values().containsKey("lease-ms") ? options.number("lease-ms") : 10_000;
        boolean isSeat = options.values().containsKey("user");
        return switch (client) {
            case "jedis" -> new OnJedis(port, leaseMs, !isSeat);
            case "lettuce" -> new OnLettuce(port, leaseMs, !isSeat);
            default -> throw new Main.WrongArguments("jedis or lettuce");
        };
    }

    /** SIGTERM releases: a program without a framework has to ask for that. A seat outlives its process. */
    private static Locks locks(LockServer server, long leaseMs, boolean isReleasedAtExit) {
        Locks.Builder builder = Locks.builder(server).service("examples").replyTimeout(Duration.ofSeconds(5))
                .lease(Duration.ofMillis(leaseMs));
        return (isReleasedAtExit ? builder.closeAtExit() : builder).build();
    }

    private static String[] texts(Object... arguments) {
        return List.of(arguments).stream().map(Object::toString).toArray(String[]::new);
    }

    final class OnJedis implements Redis {
        private final RedisClient redis;
        private final Locks locks;

        OnJedis(int port, long leaseMs, boolean isReleasedAtExit) {
            redis = RedisClient.builder().hostAndPort("127.0.0.1", port).build();
            locks = Redis.locks(JedisServer.of("127.0.0.1", port), leaseMs, isReleasedAtExit);
        }

        @Override
        public Locks locks() {
            return locks;
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
                redis.eval(script, keys, List.of(texts(arguments)));
                return true;
            } catch (JedisDataException e) {
                if (e.getMessage().startsWith("FENCED ")) {
                    return false;
                }
                throw e;
            }
        }
    }

    final class OnLettuce implements Redis {
        private final RedisCommands<String, String> redis;
        private final Locks locks;

        OnLettuce(int port, long leaseMs, boolean isReleasedAtExit) {
            RedisURI uri = RedisURI.create("127.0.0.1", port);
            io.lettuce.core.RedisClient client = io.lettuce.core.RedisClient.create(uri);
            redis = client.connect().sync();
            locks = Redis.locks(LettuceServer.of(client, uri), leaseMs, isReleasedAtExit);
        }

        @Override
        public Locks locks() {
            return locks;
        }

        @Override
        public String get(String key) {
            return redis.get(key);
        }

        @Override
        public boolean exists(String key) {
            return redis.exists(key) > 0;
        }

        @Override
        public boolean write(String script, List<String> keys, Object... arguments) {
            try {
                redis.eval(script, ScriptOutputType.STATUS, keys.toArray(String[]::new), texts(arguments));
                return true;
            } catch (RedisCommandExecutionException e) {
                if (e.getMessage().startsWith("FENCED ")) {
                    return false;
                }
                throw e;
            }
        }
    }
}
