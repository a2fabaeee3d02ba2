package io.github.redislock.jedis;

import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.atomic.AtomicInteger;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;

/** One server, by connections of Jedis: each call has one for itself, which is kept for the next. */
final class JedisNode implements ServerNode {
    /** Finds the server for each connection. May block for about this long, in nanoseconds. */
    interface Address {
        HostAndPort find(long limit);
    }

    private record Idle(JedisConnection connection, int age) {}

    private final String name;
    private final Address address;
    private final JedisClientConfig config;
    private final Deque<Idle> idle = new ConcurrentLinkedDeque<>();
    private final AtomicInteger age = new AtomicInteger(); // connections that are older may be dead
    private volatile boolean isClosed;

    JedisNode(String name, Address address, JedisClientConfig config) {
        this.name = name;
        this.address = address;
        this.config = config;
    }

    @Override
    public String address() {
        return name;
    }

    @Override
    public List<Reply> call(long limit, List<String[]> commands) {
        int now = age.get();
        Idle kept = idle.poll();
        while (kept != null && kept.age != now) {
            kept.connection.close();
            kept = idle.poll();
        }
        JedisConnection connection = kept == null ? new JedisConnection(address, config) : kept.connection;
        List<Reply> replies = connection.send(limit, commands);
        if (replies.stream().anyMatch(reply -> reply.is("") || reply.is("READONLY"))) {
            age.compareAndSet(now, now + 1); // the others may be dead, too, or lead to an old primary
        }
        if (connection.isOpen()) {
            idle.push(new Idle(connection, now));
        }
        if (isClosed) {
            close();
        }
        return replies;
    }

    @Override
    public ServerConnection connection() {
        return new JedisConnection(address, config);
    }

    @Override
    public void close() {
        isClosed = true;
        for (Idle kept = idle.poll(); kept != null; kept = idle.poll()) {
            kept.connection.close();
        }
    }
}
