package io.github.redislock.jedis;

import io.github.redislock.spi.ClusterServer;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerConnection;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;

/**
 * Servers that are reached by Jedis: with the configuration that you make your own client from. A client of Jedis does
 * not tell it.
 */
public final class JedisServer implements LockServer {
    /** Finds the primary. May block for about this long. */
    private interface Address {
        HostAndPort find(Duration limit, Executor readers) throws IOException;
    }

    private static final AtomicLong NUMBER = new AtomicLong();

    /** Threads that read connections, each of which ends a second after the last one. */
    private static Executor readers() {
        return new ThreadPoolExecutor(0, Integer.MAX_VALUE, 1, TimeUnit.SECONDS, new SynchronousQueue<>(), work -> {
            Thread thread = new Thread(work, "redis-lock-reader-" + NUMBER.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        });
    }

    private final String name;
    private final Address address;
    private final JedisClientConfig config;
    private final Executor readers = readers();

    private JedisServer(String name, Address address, JedisClientConfig config) {
        this.name = name;
        this.address = address;
        this.config = config;
    }

    /** One server without a password. */
    public static LockServer of(String host, int port) {
        return of(new HostAndPort(host, port), DefaultJedisClientConfig.builder().build());
    }

    /** One server. */
    public static LockServer of(HostAndPort server, JedisClientConfig config) {
        return new JedisServer(server.toString(), (limit, readers) -> server, config);
    }

    /** A server whose address is asked for before each connection. */
    public static LockServer of(Supplier<HostAndPort> server, JedisClientConfig config) {
        return new JedisServer("", (limit, readers) -> server.get(), config);
    }

    /** The primary that Sentinels name. The second configuration is for the Sentinels. */
    public static LockServer sentinel(String name, Collection<HostAndPort> sentinels, JedisClientConfig config,
            JedisClientConfig sentinelConfig) {
        List<HostAndPort> all = List.copyOf(sentinels);
        return new JedisServer(name + " of " + all, 
                (limit, readers) -> primary(name, all, sentinelConfig, limit, readers), config);
    }

    /** A cluster, of which these nodes are known. */
    public static LockServer cluster(Collection<HostAndPort> nodes, JedisClientConfig config) {
        Executor readers = readers();
        return new ClusterServer(nodes.stream().map(HostAndPort::toString).toList(),
                (host, port, limit) -> JedisConnection.open(mapped(host, port, config), config, limit, readers),
                () -> { });
    }

    private static HostAndPort mapped(String host, int port, JedisClientConfig config) {
        HostAndPort node = new HostAndPort(host, port);
        return config.getHostAndPortMapper() == null ? node : config.getHostAndPortMapper().getHostAndPort(node);
    }

    private static HostAndPort primary(String name, List<HostAndPort> sentinels, JedisClientConfig config,
            Duration limit, Executor readers) throws IOException {
        IOException last = new IOException("no Sentinel knows " + name);
        long until = System.nanoTime() + limit.toNanos();
        for (HostAndPort sentinel : sentinels) {
            Duration share = Duration.ofNanos(Math.max(1_000_000, (until - System.nanoTime()) / 2));
            try {
                HostAndPort found = ask(sentinel, name, config, share, readers);
                if (found != null) {
                    return found;
                }
            } catch (IOException e) {
                last = e;
            }
        }
        throw last;
    }

    private static @Nullable HostAndPort ask(HostAndPort sentinel, String name, JedisClientConfig config,
            Duration limit, Executor readers) throws IOException {
        ServerConnection connection = JedisConnection.open(sentinel, config, limit, readers);
        try {
            Object reply = connection.ask(limit, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name);
            return reply instanceof List<?> found ? new HostAndPort(text(found.get(0)), Integer.parseInt(text(found.get(1)))) : null;
        } finally {
            connection.close();
        }
    }

    private static String text(Object bytes) {
        return new String((byte[]) bytes, StandardCharsets.UTF_8);
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
        // The address is asked for before each connection.
    }

    @Override
    public ServerConnection connect(String node, Duration limit) throws IOException {
        return JedisConnection.open(address.find(limit, readers), config, limit, readers);
    }

    @Override
    public void close() {
        // Each connection is closed by itself.
    }
}
