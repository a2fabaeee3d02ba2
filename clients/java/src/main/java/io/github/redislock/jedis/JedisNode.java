package io.github.redislock.jedis;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
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
    private static final Reply BUSY = Reply.of(Fault.none(false, "no connection was free in time"));

    private final String name;
    private final Address address;
    private final JedisClientConfig config;
    // Of the monitor.
    private final Deque<JedisConnection> idle = new ArrayDeque<>();
    private int made;
    private boolean isClosed;

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
        boolean wasInterrupted = false;
        for (long left = 1; idle.isEmpty() && made == MOST && left > 0; left = (end - System.nanoTime()) / 1_000_000) {
            try {
                wait(left);
            } catch (InterruptedException e) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
        if (idle.isEmpty() && made < MOST) {
            made++;
            return new JedisConnection(address, config);
        }
        return idle.poll();
    }

    /** isSuspect: it is dead or leads to an old primary, and so may the others. */
    private synchronized void give(JedisConnection mine, boolean isSuspect) {
        idle.push(mine);
        if (isSuspect) {
            idle.forEach(JedisConnection::renew);
        }
        notify();
        if (isClosed) {
            mine.close();
        }
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
