package io.github.redislock.lettuce;

import io.github.redislock.spi.ClusterServer;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerConnection;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.codec.ByteArrayCodec;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/** Servers that are reached by Lettuce: as your client reaches them, on its threads. */
public final class LettuceServer implements LockServer {
    private interface Dial {
        ServerConnection connect(Duration limit) throws IOException;
    }

    private final String name;
    private final Dial dial;
    private final Runnable close;

    /** A builder does not copy the address of a URI that names Sentinels. */
    private static RedisURI copy(RedisURI uri) {
        RedisURI copy = new RedisURI();
        copy.setHost(uri.getHost());
        copy.setPort(uri.getPort());
        copy.setSocket(uri.getSocket());
        copy.setSentinelMasterId(uri.getSentinelMasterId());
        copy.getSentinels().addAll(uri.getSentinels());
        copy.setDatabase(uri.getDatabase());
        copy.setClientName(uri.getClientName());
        copy.setLibraryName(uri.getLibraryName());
        copy.setLibraryVersion(uri.getLibraryVersion());
        copy.applySsl(uri);
        copy.applyAuthentication(uri);
        return copy;
    }

    private LettuceServer(String name, Dial dial, Runnable close) {
        this.name = name;
        this.dial = dial;
        this.close = close;
    }

    /** One server, or the primary that Sentinels name: the URI says which. Takes the client's options and resources. */
    public static LockServer of(RedisClient client, RedisURI uri) {
        RedisClient own = own(client.getResources(), client.getOptions());
        return new LettuceServer(name(uri), limit -> connect(own, uri, limit), () -> shutDown(own));
    }

    /** The cluster of this client. Takes its options and resources. */
    public static LockServer of(RedisClusterClient client) {
        RedisClient own = own(client.getResources(), client.getOptions());
        RedisURI first = client.getPartitions().getPartition(0).getUri();
        List<String> nodes = client.getPartitions().stream().map(RedisClusterNode::getUri)
                .map(uri -> uri.getHost() + ":" + uri.getPort()).toList();
        return new ClusterServer(nodes, (host, port, limit) -> {
            RedisURI uri = copy(first);
            uri.setHost(host);
            uri.setPort(port);
            return connect(own, uri, limit);
        }, () -> shutDown(own));
    }

    /**
     * Whatever a factory of yours connects to, of which neither the client nor its URI can be had. Each call has to
     * give a new connection, and may block: it has a thread of its own, and a connection that comes too late is closed.
     * On Spring Data Redis, with a {@code LettuceConnectionFactory} for one server or for Sentinels:
     *
     * <pre>{@code
     * RedisClient client = (RedisClient) factory.getRequiredNativeClient();
     * LockServer server = LettuceServer.connecting(() -> client.connect(ByteArrayCodec.INSTANCE));
     * }</pre>
     */
    public static LockServer connecting(Callable<StatefulRedisConnection<byte[], byte[]>> factory) {
        return new LettuceServer("", limit -> LettuceConnection.open(calling(factory), limit), () -> { });
    }

    private static <T> CompletableFuture<T> calling(Callable<T> factory) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(factory.call());
            } catch (Throwable e) { // an Error too has to be told
                result.completeExceptionally(e);
            }
        }, "redis-lock-connect");
        thread.setDaemon(true);
        thread.start();
        return result;
    }

    private static String name(RedisURI uri) {
        String all = uri.getSentinels().stream().map(LettuceServer::name).collect(Collectors.joining(", "));
        return uri.getSocket() != null ? uri.getSocket()
                : all.isEmpty() ? uri.getHost() + ":" + uri.getPort() : uri.getSentinelMasterId() + " of [" + all + "]";
    }

    /** Lettuce must not reconnect: it would repeat a wait. Nor time out by itself: a wait may be long. */
    private static RedisClient own(io.lettuce.core.resource.ClientResources resources, ClientOptions options) {
        RedisClient own = RedisClient.create(resources);
        own.setOptions(options.mutate().autoReconnect(false).timeoutOptions(TimeoutOptions.create())
                .build());
        return own;
    }

    private static ServerConnection connect(RedisClient own, RedisURI uri, Duration limit) throws IOException {
        RedisURI limited = copy(uri);
        limited.setTimeout(limit); // of the handshake
        return LettuceConnection.open(own.connectAsync(ByteArrayCodec.INSTANCE, limited), limit);
    }

    private static void shutDown(RedisClient own) {
        own.shutdownAsync(0, 1, TimeUnit.SECONDS);
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public String node(String key) {
        return "";
    }

    @Override
    public void refresh(Duration limit) {
        // The address is looked for with each connection.
    }

    @Override
    public ServerConnection connect(String node, Duration limit) throws IOException {
        return dial.connect(limit);
    }

    @Override
    public void close() {
        close.run();
    }
}
