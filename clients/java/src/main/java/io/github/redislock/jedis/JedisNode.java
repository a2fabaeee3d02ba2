package io.github.redislock.jedis;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;

/** One server, by connections of Jedis: each call has one for itself, which is kept for the next. */
final class JedisNode implements ServerNode {
    /** Finds the server for each connection. May block for about this long, in nanoseconds. */
    interface Address {
        HostAndPort find(long limit);
    }

    private static final int MOST = 64; // connections for calls, however many threads there are
    private static final long MILLISECOND = 1_000_000;
    private static final Fault BUSY = Fault.none(false, "no connection was free in time", null);

    private record Idle(JedisConnection connection, int age) {}

    private final String name;
    private final Address address;
    private final JedisClientConfig config;
    private final Deque<Idle> idle = new ArrayDeque<>(); // of the monitor, as is how many were made
    private int made;
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
        long end = System.nanoTime() + limit;
        int now = age.get();
        Idle kept = take(end);
        if (kept == null) {
            return commands.stream().map(command -> Reply.of(BUSY)).toList();
        }
        if (kept.age != now) {
            kept.connection.close();
        }
        List<Reply> replies = kept.connection.send(end - System.nanoTime(), commands);
        if (replies.stream().anyMatch(reply -> reply.is("") || reply.is("READONLY"))) {
            age.compareAndSet(now, now + 1); // the others may be dead, too, or lead to an old primary
        }
        synchronized (idle) {
            idle.push(new Idle(kept.connection, now));
            idle.notify();
        }
        if (isClosed) {
            close();
        }
        return replies;
    }

    /**
     * A connection for a call, before this time, or null. Callers wait by a monitor: by a lock, virtual threads that are
     * pinned could wait for one that has no carrier.
     */
    private @Nullable Idle take(long end) {
        boolean wasInterrupted = false;
        synchronized (idle) {
            while (idle.isEmpty() && made == MOST) {
                long left = end - System.nanoTime();
                if (left < MILLISECOND) {
                    break;
                }
                try {
                    idle.wait(left / MILLISECOND);
                } catch (InterruptedException e) {
                    wasInterrupted = true;
                }
            }
            if (idle.isEmpty() && made < MOST) {
                made++;
                idle.push(new Idle(new JedisConnection(address, config), age.get()));
            }
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
            return idle.poll();
        }
    }

    @Override
    public ServerConnection connection() {
        return new JedisConnection(address, config);
    }

    @Override
    public void close() {
        isClosed = true;
        synchronized (idle) {
            idle.forEach(kept -> kept.connection.close());
        }
    }
}
