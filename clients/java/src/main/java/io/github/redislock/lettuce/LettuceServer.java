package io.github.redislock.lettuce;

import io.github.redislock.spi.ClusterServer;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.resource.ClientResources;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * Servers that are reached by Lettuce: as your client reaches them, on its threads, by connections of their own.
 *
 * <pre>{@code
 * RedisURI uri = RedisURI.create("rediss://orders:secret@redis:6379");
 * LockServer one = LettuceServer.of(RedisClient.create(uri), uri);
 * LockServer cluster = LettuceServer.of(RedisClusterClient.create("redis://node-1:6379"));
 * }</pre>
 *
 * <p>Close the locks before the client.
 */
public final class LettuceServer {
    /** One server: a connection for all calls, and one for the session. */
    private record Node(String address, LongFunction<CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>>> dial,
            Runnable shutDown, LettuceConnection shared) implements ServerNode {
        Node(String address, LongFunction<CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>>> dial,
                Runnable shutDown) {
            this(address, dial, shutDown, new LettuceConnection(dial));
        }

        @Override
        public List<Reply> call(long limit, List<String[]> commands) {
            List<Reply> replies = shared.send(limit, commands);
            if (replies.stream().anyMatch(reply -> reply.fault().is("READONLY"))) {
                shared.close(); // it leads to an old primary
            }
            return replies;
        }

        @Override
        public ServerConnection connection() {
            return new LettuceConnection(dial);
        }

        @Override
        public void close() {
            shared.close();
            shutDown.run();
        }
    }

    private LettuceServer() {}

    /**
     * One server, or the primary that Sentinels name: the URI says which. Takes the client's options and resources, and does
     * not connect.
     */
    public static LockServer of(RedisClient client, RedisURI uri) {
        RedisClient own = own(client.getResources(), client.getOptions());
        return new Node(name(uri), limit -> connect(own, uri, limit), () -> shutDown(own));
    }

    /**
     * The cluster of this client. Takes its options and resources. The client asks the cluster for its nodes, if it has not
     * yet.
     *
     * @throws io.lettuce.core.RedisException if it cannot
     */
    public static LockServer of(RedisClusterClient client) {
        RedisClient own = own(client.getResources(), client.getOptions());
        RedisURI first = client.getPartitions().getPartition(0).getUri();
        List<String> nodes = client.getPartitions().stream().map(RedisClusterNode::getUri)
                .map(uri -> uri.getHost() + ":" + uri.getPort()).toList();
        return new ClusterServer(nodes, SlotHash::getSlot, address -> {
            int colon = address.lastIndexOf(':');
            RedisURI uri = copy(first).withHost(address.substring(0, colon))
                    .withPort(Integer.parseInt(address.substring(colon + 1))).build();
            return new Node(address, limit -> connect(own, uri, limit), () -> { });
        }, () -> shutDown(own));
    }

    /**
     * A server that a factory of yours connects to, where neither the client nor its URI can be had. Each call has to
     * return a new connection, and may block: it has a thread of its own, and a connection that comes too late is closed.
     * On Spring Data Redis, with a {@code LettuceConnectionFactory} for one server or for Sentinels:
     *
     * <pre>{@code
     * RedisClient client = (RedisClient) factory.getRequiredNativeClient();
     * LockServer server = LettuceServer.connecting("redis", () -> client.connect(ByteArrayCodec.INSTANCE));
     * }</pre>
     *
     * @param name of the server, in messages
     */
    public static LockServer connecting(String name, Supplier<StatefulRedisConnection<byte[], byte[]>> factory) {
        return new Node(name, limit -> CompletableFuture.supplyAsync(factory, LettuceServer::start), () -> { });
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work, "redis-lock-connect");
        thread.setDaemon(true);
        thread.start();
    }

    private static String name(RedisURI uri) {
        String all = uri.getSentinels().stream().map(LettuceServer::name).collect(Collectors.joining(", "));
        return uri.getSocket() != null ? uri.getSocket()
                : all.isEmpty() ? uri.getHost() + ":" + uri.getPort() : uri.getSentinelMasterId() + " of [" + all + "]";
    }

    /** A builder does not copy the Sentinels by itself. */
    private static RedisURI.Builder copy(RedisURI uri) {
        RedisURI.Builder copy = RedisURI.builder(uri);
        uri.getSentinels().forEach(copy::withSentinel);
        return uri.getSentinelMasterId() == null ? copy : copy.withSentinelMasterId(uri.getSentinelMasterId());
    }

    /** Lettuce must not reconnect: it would repeat commands. Nor time out by itself: a POLL may block for long. */
    private static RedisClient own(ClientResources resources, ClientOptions options) {
        RedisClient own = RedisClient.create(resources);
        own.setOptions(options.mutate().autoReconnect(false).timeoutOptions(TimeoutOptions.create()).build());
        return own;
    }

    private static CompletableFuture<? extends StatefulRedisConnection<byte[], byte[]>> connect(RedisClient own,
            RedisURI uri, long limit) {
        RedisURI limited = copy(uri).withTimeout(Duration.ofNanos(limit)).build(); // of the handshake
        return own.connectAsync(ByteArrayCodec.INSTANCE, limited).toCompletableFuture();
    }

    private static void shutDown(RedisClient own) {
        own.shutdownAsync(0, 1, TimeUnit.SECONDS);
    }
}
