package programs;

import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import io.github.redislock.lettuce.LettuceServer;
import io.github.redislock.spi.LockServer;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisDataException;

/** What the programs need of Redis, by either client. */
interface Redis {
    Locks locks();

    /** Whether SIGTERM has closed the locks. */
    boolean isClosing();

    /** Runs a command of locks for {@link Seat}, whose holds belong to no process. */
    Object lock(String... words);

    String get(String key);

    boolean exists(String key);

    /** Runs a script that checks a token first. False when it says FENCED. */
    boolean write(String script, List<String> keys, Object... arguments);

    static Redis connect(String client, int port, Main.Options options) {
        long leaseMs = options.values().containsKey("lease-ms") ? options.number("lease-ms") : 10_000;
        return switch (client) {
            case "jedis" -> new OnJedis(port, Math.max(1000, leaseMs));
            case "lettuce" -> new OnLettuce(port, Math.max(1000, leaseMs));
            default -> throw new Main.WrongArguments("jedis or lettuce");
        };
    }

    /** SIGTERM releases: a program without a framework has to ask for that. */
    private static Locks locks(LockServer server, long leaseMs, AtomicBoolean isClosing) {
        Locks locks = Locks.builder(server).service("examples").replyTimeout(Duration.ofSeconds(5))
                .lease(Duration.ofMillis(leaseMs)).build();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isClosing.set(true);
            locks.close();
        }));
        return locks;
    }

    private static String[] texts(Object... arguments) {
        return List.of(arguments).stream().map(Object::toString).toArray(String[]::new);
    }

    final class OnJedis implements Redis {
        private final RedisClient redis;
        private final AtomicBoolean isClosing = new AtomicBoolean();
        private final Locks locks;

        OnJedis(int port, long leaseMs) {
            redis = RedisClient.builder().hostAndPort("127.0.0.1", port)
                    .clientConfig(DefaultJedisClientConfig.builder().socketTimeoutMillis(60_000).build()).build();
            locks = Redis.locks(JedisServer.of("127.0.0.1", port), leaseMs, isClosing);
        }

        @Override
        public Locks locks() {
            return locks;
        }

        @Override
        public Object lock(String... words) {
            String[] rest = Arrays.copyOfRange(words, 1, words.length);
            return redis.sendCommand(() -> words[0].getBytes(StandardCharsets.UTF_8), rest);
        }

        @Override
        public boolean isClosing() {
            return isClosing.get();
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
        private final AtomicBoolean isClosing = new AtomicBoolean();
        private final Locks locks;

        OnLettuce(int port, long leaseMs) {
            RedisURI uri = RedisURI.create("127.0.0.1", port);
            io.lettuce.core.RedisClient client = io.lettuce.core.RedisClient.create(uri);
            redis = client.connect().sync();
            locks = Redis.locks(LettuceServer.of(client, uri), leaseMs, isClosing);
        }

        @Override
        public Locks locks() {
            return locks;
        }

        @Override
        public Object lock(String... words) {
            CommandArgs<String, String> rest = new CommandArgs<>(StringCodec.UTF8);
            for (int n = 1; n < words.length; n++) {
                rest.add(words[n]);
            }
            ProtocolKeyword command = () -> words[0].getBytes(StandardCharsets.UTF_8);
            List<?> reply = redis.dispatch(command, new ArrayOutput<>(StringCodec.UTF8), rest);
            return reply.isEmpty() || reply.get(0) == null ? null : reply;
        }

        @Override
        public boolean isClosing() {
            return isClosing.get();
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
