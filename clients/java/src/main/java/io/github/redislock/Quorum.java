package io.github.redislock;

import io.github.redislock.spi.LockServer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Locks that a majority of several servers keep together: no single server that fails, hangs or is cut off keeps a lock
 * from being acquired, or loses one. The servers fail by themselves: none is a replica of another. There are at least 3.
 * The project's docs/quorum.md says which servers such a lock needs, and what it costs.
 *
 * <pre>{@code
 * LockServer one = JedisServer.of("redis-1", 6379);
 * LockServer two = JedisServer.of("redis-2", 6379);
 * LockServer three = JedisServer.of("redis-3", 6379);
 * try (Quorum quorum = Locks.builder(one).service("orders").quorum(two, three);
 *         QuorumGrant grant = quorum.get("lock:orders:42").lock()) {
 *     pay(grant.token());
 * }
 * }</pre>
 *
 * <p>Each server renews its part of a lock for as long as the process polls its session there. When a server loses its
 * part, the lock goes on with the others. With fewer than a majority it is lost. Of the observer's methods,
 * {@link LockObserver#connection} concerns one server, the others a lock.
 */
public final class Quorum implements AutoCloseable {
    final int majority;
    final List<Core> members = new ArrayList<>();
    final LockObserver observer;

    Quorum(List<? extends LockServer> servers, Locks.Settings settings) {
        if (servers.size() < 3) {
            throw LockException.misuse("a quorum needs at least 3 servers");
        }
        observer = settings.observer();
        majority = servers.size() / 2 + 1;
        LockObserver ofConnections = new LockObserver() {
            @Override
            public void connection(String server, Throwable error) {
                observer.connection(server, error);
            }
        };
        for (LockServer server : servers) {
            members.add(new Core(server, new Locks.Settings(settings.service(), settings.prefix(), settings.lease(),
                    settings.silence(), settings.reply(), ofConnections)));
        }
    }

    /** The lock of a key. */
    public QuorumLock get(String key) {
        return new QuorumLock(this, new RedisLock(members.get(0), Objects.requireNonNull(key)));
    }

    /** Ends all waits, releases all locks and closes the connections on all servers: see {@link Locks#close}. */
    @Override
    public void close() {
        members.get(0).all(members.stream().map(member -> member::close));
    }
}
