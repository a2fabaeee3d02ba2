package redislock;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.providers.ConnectionProvider;
import redis.clients.jedis.util.SafeEncoder;

/**
 * {@link RedisLocks} on Jedis: with a PooledConnectionProvider, a SentineledConnectionProvider or a
 * ClusterConnectionProvider. The caller closes it, after the locks.
 */
public final class JedisLockServer implements LockServer {
    private final ConnectionProvider connections;
    private final JedisClientConfig config;

    /** The config is for connections that wait, and names credentials and the like again. */
    public JedisLockServer(ConnectionProvider connections, JedisClientConfig config) {
        this.connections = connections;
        this.config = config;
    }

    @Override
    public List<?> call(String... command) {
        CommandArguments arguments = arguments(command);
        try (Connection connection = connections.getConnection(arguments)) {
            return answer(connection, arguments);
        } catch (RuntimeException e) {
            if (connections instanceof ClusterConnectionProvider cluster
                    && (!(e instanceof Refusal refusal) || refusal.word().equals("MOVED"))) {
                cluster.renewSlotCache();
            }
            throw e;
        }
    }

    @Override
    public Wait wait(Duration readTimeout, String... command) {
        CommandArguments arguments = arguments(command);
        HostAndPort node;
        try (Connection connection = connections.getConnection(arguments)) {
            node = connection.getHostAndPort();
        }
        Connection own = new Connection(node, DefaultJedisClientConfig.builder().from(config)
                .socketTimeoutMillis((int) Math.min(readTimeout.toMillis(), Integer.MAX_VALUE)).build());
        CompletableFuture<List<?>> answer = new CompletableFuture<>();
        Thread reader = new Thread(() -> {
            try {
                answer.complete(answer(own, arguments));
            } catch (RuntimeException e) {
                answer.completeExceptionally(e);
            }
        }, "redis-lock-wait");
        reader.setDaemon(true);
        reader.start();
        return new Wait() {
            @Override
            public Future<List<?>> answer() {
                return answer;
            }

            @Override
            public void close() {
                try {
                    own.forceDisconnect();
                } catch (java.io.IOException e) {
                    // It is closed.
                }
            }
        };
    }

    private static CommandArguments arguments(String... command) {
        CommandArguments arguments = new CommandArguments(() -> command[0].getBytes(StandardCharsets.UTF_8));
        arguments.key(command[1]);
        for (int i = 2; i < command.length; i++) {
            arguments.add(command[i]);
        }
        return arguments;
    }

    private static List<?> answer(Connection connection, CommandArguments arguments) {
        try {
            Object answer = SafeEncoder.encodeObject(connection.executeCommand(arguments));
            return answer == null || answer instanceof List<?> ? (List<?>) answer : List.of(answer);
        } catch (JedisDataException e) {
            throw new Refusal(e.getMessage());
        }
    }
}
