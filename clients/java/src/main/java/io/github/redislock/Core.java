package io.github.redislock;

import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Node;
import io.github.redislock.state.State;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * What all locks of one client share: the state with its mutex, the loops, and calls. The mutex is a monitor: with a
 * ReentrantLock, virtual threads that are pinned could wait for one that has no carrier.
 */
final class Core {
    private static final long EPOCH = System.nanoTime();
    private static final System.Logger LOG = System.getLogger("io.github.redislock");

    /** What the user attempts. */
    interface Attempt<T extends @Nullable Object, X extends Exception> {
        T make() throws X;
    }

    final Locks.Settings settings;
    final LockServer server;
    final State state;
    final Map<Thread, Task> threads = new ConcurrentHashMap<>(); // of those that hold a ThreadLock
    final Map<ServerNode, Loop> loops = new ConcurrentHashMap<>();
    final ScheduledThreadPoolExecutor timer;
    private final ThreadPoolExecutor background;
    private final String process;
    private final AtomicLong owners = new AtomicLong();

    Core(LockServer server, Locks.Settings settings) {
        this.server = server;
        this.settings = settings;
        process = process();
        state = new State(settings.lease(), settings.reply(), server.isCluster());
        state.resend = command -> elsewhere(() -> new Route(this, command[1], null).call(end(), command));
        ThreadFactory factory = work -> thread("work", work);
        background = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 1, TimeUnit.SECONDS, new SynchronousQueue<>(), factory);
        timer = new ScheduledThreadPoolExecutor(1, factory);
        timer.setKeepAliveTime(1, TimeUnit.SECONDS);
        timer.allowCoreThreadTimeOut(true);
        timer.setRemoveOnCancelPolicy(true);
    }

    /** The time since a fixed moment. */
    static long now() {
        return System.nanoTime() - EPOCH;
    }

    /** A platform thread, also where the user's are virtual. */
    Thread thread(String does, Runnable work) {
        Thread thread = new Thread(null, work, "redis-lock-" + does + "-" + settings.service(), 0, false);
        thread.setDaemon(true);
        thread.setContextClassLoader(Core.class.getClassLoader());
        return thread;
    }

    /** Runs a callback of the user; what it throws is logged. */
    private static void logged(Runnable work) {
        try {
            work.run();
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "a callback failed", e);
        }
    }

    /** Does it elsewhere; what it throws is logged. */
    void elsewhere(Runnable work) {
        background.execute(() -> logged(work));
    }

    /** Warns of threads that have ended without unlock: nobody else can unlock what they hold. */
    void warnOfEndedThreads() {
        threads.forEach((thread, task) -> {
            if (!thread.isAlive() && threads.remove(thread) != null) {
                elsewhere(() -> LOG.log(System.Logger.Level.WARNING, "the thread " + thread.getName()
                        + " has ended without unlock of " + task.keys() + ", which stays held until this client is closed"));
            }
        });
    }

    private String process() {
        String host;
        try {
            host = InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            host = "localhost";
        }
        return "%.80s:%.80s:%d:%s-".formatted(settings.service().replaceAll("[^!-~]", "?"), host,
                ProcessHandle.current().pid(), Long.toString(new SecureRandom().nextLong() >>> 1, 36));
    }

    /** An owner that is fresh, so that a late call meets only its own grant. */
    String owner() {
        return process + Long.toString(owners.incrementAndGet(), 36);
    }

    /** Does something with the state, at the time of now; then, without the mutex, wakes the callers of what has changed. */
    <T extends @Nullable Object> T atomically(Supplier<T> work) {
        T result;
        List<Runnable> news;
        synchronized (state) {
            state.at = Math.max(now(), state.at + 1);
            result = work.get();
            news = state.takeNews();
        }
        news.forEach(Runnable::run);
        return result;
    }

    void update(Runnable work) {
        atomically(() -> {
            work.run();
            return null;
        });
    }

    /** Attempts something, and notifies of its end, of how long ago that time is, and of its error. */
    static <T extends @Nullable Object, X extends Exception> T observed(BiConsumer<Duration, @Nullable Throwable> ended,
            long since, Attempt<T, X> attempt) throws X {
        Throwable error = null;
        try {
            return attempt.make();
        } catch (Throwable e) {
            error = e;
            throw e;
        } finally {
            Throwable why = error;
            logged(() -> ended.accept(Duration.ofNanos(now() - since), why));
        }
    }

    Loop loopOf(ServerNode node) {
        return loops.computeIfAbsent(node, it -> new Loop(this, it));
    }

    /** The end of calls that begin now. */
    long end() {
        return now() + 2 * settings.reply();
    }

    /** Sleeps. An interrupt does not end it, and is kept. */
    static void pause(long nanos) {
        long end = now() + nanos;
        boolean wasInterrupted = false;
        for (long left = nanos; left > 0; left = end - now()) {
            wasInterrupted |= Thread.interrupted();
            LockSupport.parkNanos(left);
        }
        if (wasInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Does all of it at once, and waits for the end. An interrupt does not end that, and is kept. */
    void all(Stream<Runnable> works) {
        CompletableFuture.allOf(works.map(work -> CompletableFuture.runAsync(() -> logged(work), background))
                .toArray(CompletableFuture[]::new)).join();
    }

    /**
     * Ends all waits, closes the sessions, releases what was in none of them, and closes the connections, within two reply
     * timeouts.
     */
    void close() {
        List<Claim> grants = atomically(() -> state.isClosed ? null : state.close());
        if (grants != null) {
            long end = end();
            all(loops.values().stream().map(loop -> () -> close(loop, grants, end)));
            timer.shutdownNow();
            server.close();
        }
    }

    /** Closes the sessions of a server, and releases what was in none of them. */
    private void close(Loop loop, List<Claim> grants, long end) {
        Set<Long> closed = new HashSet<>();
        for (long session : loop.node.sessions()) {
            if (session != 0 && !new Route(this, null, loop).call(end, Node.closeCommand(session)).reply().isFault()) {
                closed.add(session);
            }
        }
        for (Claim grant : grants) {
            if (grant.node == loop.node && !closed.contains(grant.session)) {
                new Route(this, grant.name.key(), null).call(end, grant.releaseCommand(0));
            }
        }
        loop.end(end);
    }
}
