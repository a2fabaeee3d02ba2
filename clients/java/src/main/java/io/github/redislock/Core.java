package io.github.redislock;

import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Answer;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Failure;
import io.github.redislock.state.Name;
import io.github.redislock.state.State;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * What all locks of one client share: the state with its mutex, the loops, and calls. The mutex is a monitor: with a
 * ReentrantLock, virtual threads that are pinned could wait for one that has no carrier.
 */
final class Core {
    private static final long EPOCH = System.nanoTime();
    private static final System.Logger LOG = System.getLogger("io.github.redislock");

    private record Call(String[] words, long number) {}

    final Settings settings;
    final LockServer server;
    final State state;
    final Threads threads = new Threads(this);
    final Map<ServerNode, Loop> loops = new ConcurrentHashMap<>();
    final ScheduledThreadPoolExecutor timer;
    private final ThreadPoolExecutor background;
    private final String process;
    private final AtomicLong owners = new AtomicLong();
    volatile boolean isClosing;

    Core(LockServer server, Settings settings) {
        this.server = server;
        this.settings = settings;
        process = process();
        state = new State(settings.lease(), settings.reply(), server.isCluster());
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

    /** Does it elsewhere; what it throws is logged. */
    void elsewhere(Runnable work) {
        Runnable logged = () -> {
            try {
                work.run();
            } catch (RuntimeException e) {
                LOG.log(System.Logger.Level.ERROR, "a callback has failed", e);
            }
        };
        try {
            background.execute(logged);
        } catch (RejectedExecutionException e) { // the client is closed
            thread("work", logged).start();
        }
    }

    void warn(String text) {
        elsewhere(() -> LOG.log(System.Logger.Level.WARNING, text));
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
        List<Runnable> news = List.of();
        try {
            synchronized (state) {
                state.at = Math.max(now(), state.at + 1);
                try {
                    return work.get();
                } finally {
                    news = state.takeNews();
                }
            }
        } finally {
            news.forEach(Runnable::run);
        }
    }

    void update(Runnable work) {
        atomically(() -> {
            work.run();
            return null;
        });
    }

    /** Notifies the observer. What that throws is logged. */
    void observe(Consumer<LockObserver> notify) {
        try {
            notify.accept(settings.observer());
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "an observer has failed", e);
        }
    }

    /** The notification of the end of an acquire. */
    static Consumer<LockObserver> acquired(String key, long begun, @Nullable Throwable error) {
        Duration took = Duration.ofNanos(now() - begun);
        return observer -> observer.acquired(key, took, error);
    }

    /** The notification of the end of a release. */
    static Consumer<LockObserver> released(String key, long taken, @Nullable Throwable error) {
        Duration held = Duration.ofNanos(now() - taken);
        return observer -> observer.released(key, held, error);
    }

    Loop loopOf(ServerNode node) {
        return loops.computeIfAbsent(node, it -> new Loop(this, it));
    }

    /** The end of calls that begin now. */
    long end() {
        return now() + 2 * settings.reply();
    }

    /** Makes a call in a claim's name. before returns its command, after applies the answer. */
    void call(String attempted, Name name, Supplier<String[]> before, Consumer<Answer> after) {
        try {
            Call call = atomically(() -> new Call(before.get(), state.beginCall(name)));
            Answer answer = new Route(this, name.key()).call(end(), loop -> call.words);
            update(() -> {
                state.endCall(call.number);
                after.accept(answer);
            });
        } catch (Failure e) {
            throw Errors.of(attempted, name.key(), e.fault);
        }
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

    /** Waits for the end of a thread. An interrupt does not end that, and is kept. */
    static void join(Thread thread, long nanos) {
        long end = now() + nanos;
        while (thread.isAlive() && now() < end) {
            pause(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }

    /**
     * Ends all waits, closes the sessions, releases what was in none of them, and closes the connections, within two reply
     * timeouts.
     */
    void close() {
        List<Claim> grants = atomically(() -> {
            boolean wasClosed = isClosing;
            isClosing = true;
            return wasClosed ? null : state.close();
        });
        if (grants == null) {
            return;
        }
        long end = end();
        Queue<Runnable> calls = new ConcurrentLinkedQueue<>();
        Map<Long, Boolean> closed = new ConcurrentHashMap<>();
        loops.values().forEach(loop -> loop.node.sessions().forEach(session -> calls.add(() -> {
            String[] words = {"LOCK.SESSION", "CLOSE", String.valueOf(session)};
            closed.put(session, !new Route(this, loop).call(end, to -> words).reply().isFault());
        })));
        all(calls, end);
        for (Claim grant : grants) {
            if (!closed.getOrDefault(grant.session, false)) {
                calls.add(() -> new Route(this, grant.name.key()).call(end, to -> grant.releaseCommand()));
            }
        }
        all(calls, end);
        loops.values().forEach(loop -> loop.end(end));
        timer.shutdownNow();
        server.close();
        background.shutdown();
    }

    /** Makes all calls at once, by some threads. */
    private void all(Queue<Runnable> calls, long end) {
        List<Thread> threads = new ArrayList<>();
        for (int i = Math.min(calls.size(), 16); i > 0; i--) {
            threads.add(thread("close", () -> {
                for (Runnable call = calls.poll(); call != null; call = calls.poll()) {
                    call.run();
                }
            }));
        }
        threads.forEach(Thread::start);
        threads.forEach(thread -> join(thread, end + settings.reply() - now()));
    }
}
