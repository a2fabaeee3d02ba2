package io.github.redislock.jedis;

import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;

/** One server, by connections of Jedis: each call has one for itself, which is kept for the next. */
final class JedisNode implements ServerNode {
    /** Finds the server for each connection. May block for about this long, in nanoseconds. */
    interface Address {
        HostAndPort find(long limit);
    }

    private static final int MOST = 64; // connections for calls, however many threads there are
    private static final long PAUSE = TimeUnit.MICROSECONDS.toNanos(200);

    private record Idle(JedisConnection connection, int age) {}

    private final String name;
    private final Address address;
    private final JedisClientConfig config;
    private final Deque<Idle> idle = new ConcurrentLinkedDeque<>();
    private final AtomicInteger age = new AtomicInteger(); // connections that are older may be dead
    private final AtomicInteger open = new AtomicInteger();
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
        long end = System.nanoTime() + limit;
        int now = age.get();
        Idle kept = idle.poll();
        while (kept == null && open.get() >= MOST && System.nanoTime() < end) { // calls take milliseconds
            LockSupport.parkNanos(PAUSE);
            kept = idle.poll();
        }
        if (kept == null) {
            open.incrementAndGet();
            kept = new Idle(new JedisConnection(address, config), now);
        } else if (kept.age != now) {
            kept.connection.close();
        }
        List<Reply> replies = kept.connection.send(end - System.nanoTime(), commands);
        if (replies.stream().anyMatch(reply -> reply.is("") || reply.is("READONLY"))) {
            age.compareAndSet(now, now + 1); // the others may be dead, too, or lead to an old primary
        }
        if (kept.connection.isOpen()) {
            idle.push(new Idle(kept.connection, now));
        } else {
            open.decrementAndGet();
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
