package io.github.redislock;

import io.github.redislock.spi.LockServer;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;

/**
 * Locks of several processes on a server with the module redis-lock. One for a process and server, for all its threads.
 *
 * <pre>{@code
 * try (Locks locks = Locks.of(JedisServer.of("127.0.0.1", 6379), "orders")) {
 *     try (Grant grant = locks.get("lock:orders:42").waiting(Duration.ofSeconds(10)).lock()) {
 *         System.out.println("fence writes with " + grant.token());
 *     }
 * }
 * }</pre>
 *
 * <p>The server renews what is held, for as long as this process polls its session. A loss is reported at once: by
 * {@link Grant#onLost}, by {@link Grant#check} and the release, and as an interrupt of {@link RedisLock#call}.
 */
public final class Locks implements AutoCloseable {
    /** What a {@link Locks} was made with; times in nanoseconds. */
    record Settings(String service, String prefix, long lease, long silence, long reply, LockObserver observer) {}

    final Core core;

    private Locks(Core core) {
        this.core = core;
    }

    /** On this server, for a service of this name, which operators see in the names of owners. It opens no connection. */
    public static Locks of(LockServer server, String service) {
        return builder(server).service(service).build();
    }

    /** With settings of your own, on this server. */
    public static Builder builder(LockServer server) {
        return new Builder(Objects.requireNonNull(server));
    }

    /** The lock of a key, which the client's prefix begins. */
    public RedisLock get(String key) {
        return new RedisLock(core, Objects.requireNonNull(key));
    }

    /** The locks of several keys, acquired all or none. A key that is named twice counts once. */
    public SeveralLocks all(String... keys) {
        return new SeveralLocks(this, List.of(keys), Lockable.FOREVER);
    }

    /** A task: one owner for several locks, which may enter a lock again. */
    public Task task() {
        return new Task(core);
    }

    /**
     * Ends all waits, releases all locks and closes the connections. Call it when the work under the locks has stopped. It
     * takes no longer than 2 reply timeouts, and throws nothing. A lock that could not be released by then is free a lease
     * later. An acquire after it, and a call about a grant, throws {@link LockMisuseException}.
     */
    @Override
    public void close() {
        core.close();
    }

    /**
     * Settings of {@link Locks}.
     *
     * <pre>{@code
     * Locks locks = Locks.builder(JedisServer.of("127.0.0.1", 6379)).service("orders").prefix("shop:")
     *         .lease(Duration.ofSeconds(20)).build();
     * }</pre>
     */
    public static final class Builder {
        private final LockServer server;
        private String service = "java";
        private String prefix = "";
        private long lease = Duration.ofSeconds(10).toNanos();
        private long silence = Duration.ofSeconds(30).toNanos();
        private long reply = Duration.ofSeconds(1).toNanos();
        private LockObserver observer = new LockObserver() { };

        private Builder(LockServer server) {
            this.server = server;
        }

        /** Begins the name of each owner and names the session, so that an operator sees whose a lock is: by default java. */
        public Builder service(String name) {
            service = Objects.requireNonNull(name);
            return this;
        }

        /** Begins the key of each lock: by default nothing. */
        public Builder prefix(String begin) {
            prefix = Objects.requireNonNull(begin);
            return this;
        }

        /**
         * How long others wait for a lock when this process has died: by default 10 s.
         *
         * @throws LockMisuseException if it is below 1 s
         */
        public Builder lease(Duration time) {
            lease = Lockable.atLeast(1000, time);
            return this;
        }

        /**
         * How long the process may be suspended and keep its locks: by default 30 s.
         *
         * @throws LockMisuseException if it is below 1 s
         */
        public Builder silence(Duration time) {
            silence = Lockable.atLeast(1000, time);
            return this;
        }

        /**
         * Limits each reply of the server, connecting included: by default 1 s.
         *
         * @throws LockMisuseException if it is below 1 ms
         */
        public Builder replyTimeout(Duration time) {
            reply = Lockable.atLeast(1, time);
            return this;
        }

        /** Is notified of what happens, for metrics: by default nobody is. */
        public Builder observer(LockObserver notified) {
            observer = Objects.requireNonNull(notified);
            return this;
        }

        /** The locks. It opens no connection. */
        public Locks build() {
            return new Locks(new Core(server, settings()));
        }

        /**
         * Locks that a majority of this server and these others keep together: see {@link Quorum}. All processes name the
         * servers in the same order.
         *
         * @throws LockMisuseException if there are fewer than three servers
         */
        public Quorum quorum(LockServer... others) {
            return new Quorum(Stream.concat(Stream.of(server), Stream.of(others)).toList(), settings());
        }

        private Settings settings() {
            return new Settings(service, prefix, lease, silence, reply, observer);
        }
    }
}
