package io.github.redislock;

import io.github.redislock.spi.LockServer;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Locks of several processes on a server with the module redis-lock, or on several that decide together: see
 * {@link #quorum}. One for a process and server, for all its threads.
 *
 * <pre>{@code
 * try (Locks locks = Locks.of(JedisServer.of("127.0.0.1", 6379), "orders")) {
 *     try (Grant grant = locks.lock("lock:orders:42").waiting(Duration.ofSeconds(10)).acquire()) {
 *         System.out.println("fence writes with " + grant.token());
 *     }
 * }
 * }</pre>
 *
 * <p>The server renews what is held, for as long as this process lives. A loss is told at once: by
 * {@link Grant#onLost}, by {@link Grant#check} and the release, and as an interrupt of {@link RedisLock#call}.
 */
public final class Locks implements AutoCloseable {
    private final Scope scope;
    private final Threads threads;
    private @Nullable Thread hook;

    private Locks(Scope scope, boolean isClosedAtExit) {
        this.scope = scope;
        threads = new Threads(scope);
        if (isClosedAtExit) {
            hook = new Thread(scope::close, "redis-lock-exit");
            Runtime.getRuntime().addShutdownHook(hook);
        }
    }

    /** On this server, for a service of this name, which operators see in the names of owners. */
    public static Locks of(LockServer server, String service) {
        return builder(server).service(service).build();
    }

    /** With settings of your own. */
    public static Builder builder(LockServer server) {
        Objects.requireNonNull(server);
        return new Builder(settings -> new Core(server, settings));
    }

    /**
     * On independent servers that decide together: three, or a larger odd number of them, the same ones in every
     * process. A lock is held when more than half of them have granted it, with one token that rises from holder to
     * holder; any minority may be down, hang or be cut off. What such a lock needs and costs: docs/quorum.md of the
     * project.
     *
     * <p>This process renews what it holds, every third of the lease: {@link Builder#keep} says nothing here. Each grant
     * has an owner of its own, and is exclusive: {@link #shared}, {@link #permit}, {@link #readWriteLock},
     * {@link #holders}, {@link #forceUnlock}, {@link RedisLock#owner}, {@link RedisLock#replicas},
     * {@link Grant#downgrade} and {@link ThreadLock#isLocked} are a {@link LockMisuseException}.
     */
    public static Builder quorum(LockServer... servers) {
        return quorum(List.of(servers));
    }

    /** As {@link #quorum(LockServer...)}. */
    public static Builder quorum(Collection<? extends LockServer> servers) {
        List<LockServer> all = Quorum.checked(servers);
        return new Builder(settings -> new Quorum(all, settings));
    }

    /** A lock that one has alone. */
    public RedisLock lock(String key) {
        return new RedisLock(scope, threads, Objects.requireNonNull(key), List.of());
    }

    /** A lock that is shared by all who take it like this, and keeps out who wants it alone. */
    public RedisLock shared(String key) {
        return new RedisLock(scope, threads, Objects.requireNonNull(key), List.of("SHARED"));
    }

    /** One permit of a semaphore that has so many. Each permit is an owner of its own. */
    public RedisLock permit(String key, int of) {
        if (of < 1) {
            throw new LockMisuseException("a semaphore of " + of, null);
        }
        return new RedisLock(scope, threads, Objects.requireNonNull(key), List.of("LIMIT", String.valueOf(of)));
    }

    /** A read and write lock of threads. */
    public ThreadReadWriteLock readWriteLock(String key) {
        return new ThreadReadWriteLock(
                new ThreadLock(scope, threads, shared(key).threadSpec(), ThreadLock.Counts.READERS),
                new ThreadLock(scope, threads, lock(key).threadSpec(), ThreadLock.Counts.WRITERS));
    }

    /** The locks of several keys, each taken alone, all together or none. */
    public SeveralLocks all(String... keys) {
        return all(List.of(keys));
    }

    /** The locks of several keys, each taken alone, all together or none. */
    public SeveralLocks all(Collection<String> keys) {
        return new SeveralLocks(this, keys);
    }

    /** One owner for several locks, for work that changes threads. */
    public Task task() {
        return new Task(scope, scope::freshOwner);
    }

    /** Takes over a grant that was taken elsewhere, and keeps it from now on. */
    public Grant adopt(String key, String owner, long token) {
        return lock(key).adopt(owner, token);
    }

    /** Who holds the lock; nobody, where it is free. */
    public List<Holder> holders(String key) {
        return scope.look().holders(key);
    }

    /** Takes the lock away from whoever has it; the next in line gets it. Tells whether anybody had it. */
    public boolean forceUnlock(String key) {
        return scope.look().delete(key);
    }

    /** How many locks and permits are held here, as far as is known. */
    public int held() {
        return scope.held.size();
    }

    /**
     * Waits until nothing is held here, for so long at most; tells whether that came about. Locks may be taken
     * meanwhile. Before {@link #close}, it lets work under locks come to its end.
     */
    public boolean awaitReleased(Duration time) throws InterruptedException {
        long begun = System.nanoTime();
        while (held() > 0) {
            if (System.nanoTime() - begun >= time.toNanos()) {
                return false;
            }
            Thread.sleep(10);
        }
        return true;
    }

    /** Whether {@link #close} was called. */
    public boolean isClosed() {
        return scope.isClosed();
    }

    /** Releases all locks, calls off all waits and ends all connections, in two seconds at most. */
    @Override
    public void close() {
        scope.close();
        if (hook != null && hook != Thread.currentThread()) {
            try {
                Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException e) {
                // The JVM is about to end, and the hook runs or has run.
            }
        }
    }

    /** Settings. */
    public static final class Builder {
        private final Function<Settings, Scope> scope;
        private String service = "java";
        private Duration lease = Duration.ofSeconds(10);
        private Duration keep = Duration.ofSeconds(30);
        private Duration reply = Duration.ofSeconds(1);
        private Duration release = Duration.ofSeconds(2);
        private Duration close = Duration.ofSeconds(2);
        private LockObserver observer = new LockObserver() { };
        private @Nullable ThreadFactory threads;
        private boolean isClosedAtExit;

        private Builder(Function<Settings, Scope> scope) {
            this.scope = scope;
        }

        /** The name of the service, which operators see in the names of owners. */
        public Builder service(String name) {
            service = name;
            return this;
        }

        /** How long others wait when this process has died: 10 s. */
        public Builder lease(Duration time) {
            lease = RedisLock.atLeast(1, time);
            return this;
        }

        /** How long this process may stand still and keep its locks: 1 s or more, by default 30 s. */
        public Builder keep(Duration time) {
            keep = RedisLock.atLeast(1000, time);
            return this;
        }

        /** How long one reply may take, connecting included: 1 s. */
        public Builder replyTimeout(Duration time) {
            reply = time;
            return this;
        }

        /** How long a release may take: 2 s. */
        public Builder releaseTimeout(Duration time) {
            release = time;
            return this;
        }

        /** How long {@link Locks#close} may take: 2 s. */
        public Builder closeTimeout(Duration time) {
            close = time;
            return this;
        }

        /** Is told what happens, for metrics. */
        public Builder observer(LockObserver told) {
            observer = told;
            return this;
        }

        /** Makes the threads of this client, such as virtual ones. Without it they are daemons. */
        public Builder threads(ThreadFactory factory) {
            threads = factory;
            return this;
        }

        /** Closes the locks when the JVM ends in good order. Not with Spring, which closes its beans in their order. */
        public Builder closeAtExit() {
            isClosedAtExit = true;
            return this;
        }

        /** Connects nowhere yet. */
        public Locks build() {
            AtomicInteger number = new AtomicInteger();
            ThreadFactory factory = threads != null ? threads : work -> {
                Thread thread = new Thread(work, "redis-lock-" + number.incrementAndGet());
                thread.setDaemon(true);
                return thread;
            };
            return new Locks(scope.apply(new Settings(service, lease, keep, reply.toNanos(), release.toNanos(),
                    close.toNanos(), factory, new Observed(observer))), isClosedAtExit);
        }
    }
}
