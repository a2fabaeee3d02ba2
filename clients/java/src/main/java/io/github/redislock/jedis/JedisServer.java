package io.github.redislock.jedis;

import io.github.redislock.spi.ClusterServer;
import io.github.redislock.spi.Fault;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.util.JedisClusterCRC16;

/**
 * Servers that are reached by Jedis: by connections of their own, with the configuration that you make your client from. A
 * client of Jedis does not tell it, and cannot limit one call.
 *
 * <pre>{@code
 * JedisClientConfig config = DefaultJedisClientConfig.builder().ssl(true).user("orders").password("secret").build();
 * LockServer one = JedisServer.of(new HostAndPort("redis", 6379), config);
 * LockServer cluster = JedisServer.cluster(Set.of(new HostAndPort("node-1", 6379), new HostAndPort("node-2", 6379)), config);
 * LockServer primary = JedisServer.sentinel("mymaster", Set.of(new HostAndPort("sentinel-1", 26379)), config,
 *         DefaultJedisClientConfig.builder().build());
 * }</pre>
 *
 * <p>None of them connects, so none fails: the first acquire does.
 */
public final class JedisServer {
    /** One server, by connections of Jedis: each call has one for itself, which is kept for the next. */
    private static final class Node implements ServerNode {
        private static final int MOST = 64; // connections for calls, however many threads there are
        private static final Reply BUSY = Reply.of(Fault.none(false, "no connection was free in time"));

        private final String name;
        private final LongFunction<HostAndPort> address; // for each connection; may block for about so many nanoseconds
        private final JedisClientConfig config;
        // Of the monitor.
        private final Deque<JedisConnection> idle = new ArrayDeque<>(); // those that were used last come first
        private boolean isClosed;

        Node(String name, LongFunction<HostAndPort> address, JedisClientConfig config) {
            this.name = name;
            this.address = address;
            this.config = config;
            for (int n = 0; n < MOST; n++) {
                idle.add(new JedisConnection(address, config)); // which is not connected
            }
        }

        @Override
        public String address() {
            return name;
        }

        @Override
        public List<Reply> call(long limit, List<String[]> commands) {
            long end = System.nanoTime() + limit;
            JedisConnection mine = take(end);
            if (mine == null) {
                return Collections.nCopies(commands.size(), BUSY);
            }
            List<Reply> replies = mine.send(end - System.nanoTime(), commands);
            Fault last = replies.get(replies.size() - 1).fault();
            give(mine, last.isSilence() || last.is("READONLY"));
            return replies;
        }

        /**
         * A connection for a call, or null if none is free before this time. Callers wait by a monitor: by a lock, virtual
         * threads that are pinned could wait for one that has no carrier.
         */
        private synchronized @Nullable JedisConnection take(long end) {
            for (long left = 1; idle.isEmpty() && left > 0; left = (end - System.nanoTime()) / 1_000_000) {
                try {
                    wait(left);
                } catch (InterruptedException e) { // which does not end that, and is kept
                    JedisConnection taken = take(end);
                    Thread.currentThread().interrupt();
                    return taken;
                }
            }
            return idle.poll();
        }

        /** isSuspect: it is dead or leads to an old primary, and so may the others. */
        private synchronized void give(JedisConnection mine, boolean isSuspect) {
            idle.push(mine);
            if (isSuspect || isClosed) {
                idle.forEach(JedisConnection::close);
            }
            notify();
        }

        @Override
        public ServerConnection connection() {
            return new JedisConnection(address, config);
        }

        @Override
        public synchronized void close() {
            isClosed = true;
            idle.forEach(JedisConnection::close);
        }
    }

    private JedisServer() {}

    /** One server without a password. */
    public static LockServer of(String host, int port) {
        return of(new HostAndPort(host, port), DefaultJedisClientConfig.builder().build());
    }

    /** One server, with this configuration. Its timeouts are not used. */
    public static LockServer of(HostAndPort server, JedisClientConfig config) {
        return new Node(server.toString(), limit -> server, config);
    }

    /**
     * The primary that Sentinels name, which are asked for each connection.
     *
     * @param name of the primary, as the Sentinels know it
     * @param sentinels asked one after the other
     * @param config for the primary
     * @param sentinelConfig for the Sentinels
     */
    public static LockServer sentinel(String name, Collection<HostAndPort> sentinels, JedisClientConfig config,
            JedisClientConfig sentinelConfig) {
        List<HostAndPort> all = List.copyOf(sentinels);
        return new Node(name + " of " + all, limit -> primary(name, all, sentinelConfig, limit), config);
    }

    /** A cluster, of which these nodes are known; they tell the others. */
    public static LockServer cluster(Collection<HostAndPort> nodes, JedisClientConfig config) {
        return new ClusterServer(nodes.stream().map(HostAndPort::toString).toList(), JedisClusterCRC16::getSlot,
                address -> new Node(address, limit -> mapped(HostAndPort.from(address), config), config), () -> { });
    }

    private static HostAndPort mapped(HostAndPort node, JedisClientConfig config) {
        return config.getHostAndPortMapper() == null ? node : config.getHostAndPortMapper().getHostAndPort(node);
    }

    private static HostAndPort primary(String name, List<HostAndPort> sentinels, JedisClientConfig config, long limit) {
        Fault fault = Fault.NONE;
        long end = System.nanoTime() + limit;
        for (HostAndPort sentinel : sentinels) {
            JedisConnection connection = new JedisConnection(left -> sentinel, config);
            Reply reply = connection.send(Math.max(1_000_000, (end - System.nanoTime()) / 2),
                    List.<String[]>of(new String[] {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name})).get(0);
            connection.close();
            if (reply.value() instanceof List<?> found) {
                return new HostAndPort(String.valueOf(found.get(0)), Integer.parseInt(String.valueOf(found.get(1))));
            }
            fault = reply.isFault() ? reply.fault() : fault;
        }
        throw new JedisConnectionException("no Sentinel knows the address of " + name + ": " + fault.text(), fault.cause());
    }
}
