package redislock;

import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.api.StatefulConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.AsyncCommand;
import io.lettuce.core.protocol.Command;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * {@link RedisLocks} on Lettuce: on a RedisClient with a URI (Sentinel included) or a
 * RedisClusterClient.
 */
public final class LettuceLockServer implements LockServer, AutoCloseable {
    private final AbstractRedisClient client;
    private final Runnable last;
    private StatefulConnection<String, String> shared;

    private record LockCommand(String name) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return name.getBytes(StandardCharsets.US_ASCII);
        }
    }

    /**
     * The client is one without autoReconnect: having reconnected, it would repeat calls unseen. What
     * is to be done last closes the client, where it is for the locks alone.
     */
    public LettuceLockServer(AbstractRedisClient client, Runnable last) {
        if (client.getOptions().isAutoReconnect()) {
            throw new IllegalArgumentException("a client with autoReconnect");
        }
        this.client = client;
        this.last = last;
    }

    @Override
    public List<?> call(String... command) {
        StatefulConnection<String, String> connection = shared();
        try {
            return send(connection, command).orTimeout(connection.getTimeout().toNanos(), TimeUnit.NANOSECONDS).join();
        } catch (CompletionException e) {
            if (e.getCause() instanceof Refusal refusal) {
                throw refusal;
            }
            drop(connection);
            throw e;
        }
    }

    @Override
    public Wait wait(Duration readTimeout, String... command) {
        StatefulConnection<String, String> own = connect();
        CompletableFuture<List<?>> answer;
        try {
            StatefulConnection<String, String> node = own;
            if (own instanceof StatefulRedisClusterConnection<String, String> cluster) {
                // The timeout of the whole does not reach the connection to the node that serves the key.
                int slot = SlotHash.getSlot(command[1]);
                node = cluster.getConnection(cluster.getPartitions().getPartitionBySlot(slot).getNodeId());
            }
            node.setTimeout(readTimeout);
            answer = send(node, command);
        } catch (RuntimeException e) {
            own.closeAsync();
            throw e;
        }
        return new Wait() {
            @Override
            public Future<List<?>> answer() {
                return answer;
            }

            @Override
            public void close() {
                own.closeAsync();
            }
        };
    }

    @Override
    public synchronized void close() {
        if (shared != null) {
            drop(shared);
        }
        last.run();
    }

    /** After a failure the next call connects anew, to the primary of then. */
    private synchronized void drop(StatefulConnection<String, String> broken) {
        if (shared == broken) {
            shared = null;
            broken.closeAsync();
        }
    }

    private synchronized StatefulConnection<String, String> shared() {
        if (shared == null) {
            shared = connect();
        }
        return shared;
    }

    private StatefulConnection<String, String> connect() {
        return client instanceof RedisClusterClient cluster ? cluster.connect() : ((RedisClient) client).connect();
    }

    private CompletableFuture<List<?>> send(StatefulConnection<String, String> connection, String... command) {
        CommandArgs<String, String> arguments = new CommandArgs<>(StringCodec.UTF8).addKey(command[1]);
        for (int i = 2; i < command.length; i++) {
            arguments.add(command[i]);
        }
        var call = new AsyncCommand<>(
                new Command<>(new LockCommand(command[0]), new NestedMultiOutput<>(StringCodec.UTF8), arguments));
        connection.dispatch(call);
        return call.toCompletableFuture().handle((answer, failure) -> {
            if (failure instanceof RedisCommandExecutionException) {
                if (failure.getMessage().startsWith("MOVED") && client instanceof RedisClusterClient cluster) {
                    cluster.refreshPartitionsAsync();
                }
                throw new Refusal(failure.getMessage());
            }
            if (failure != null) {
                throw new IllegalStateException("no answer", failure);
            }
            return answer == null || answer.isEmpty() || answer.get(0) == null ? null : answer;
        });
    }
}
