package io.github.redislock;

import io.github.redislock.spi.LockServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** What the parts of one client share: its server, threads, keepers and connections that wait. */
final class Core implements Executor {
    private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long LAST_PAUSE = TimeUnit.SECONDS.toNanos(1);
    static final System.Logger LOG = System.getLogger("io.github.redislock");

    private final Settings settings;
    private final LockServer server;
    private final ScheduledThreadPoolExecutor timer;
    private final ThreadPoolExecutor workers;
    private final String process;
    private final Map<String, Keeper> keepers = new ConcurrentHashMap<>();
    private final Map<String, WaitLines> waitLines = new ConcurrentHashMap<>();
    private final Map<String, Integer> waiting = new ConcurrentHashMap<>();
    final Set<Acquire> acquires = ConcurrentHashMap.newKeySet();
    final Set<Call> calls = ConcurrentHashMap.newKeySet();
    final Takeovers takeovers = new Takeovers(this);
    final Set<Held> held = ConcurrentHashMap.newKeySet();
    private final Object mapLock = new Object();
    private @Nullable CompletableFuture<Void> refreshing;
    private volatile boolean closed;
    private volatile boolean over;

    Core(LockServer server, Settings settings) {
        this.server = server;
        this.settings = settings;
        timer = new ScheduledThreadPoolExecutor(1, settings.threads());
        timer.setRemoveOnCancelPolicy(true);
        workers = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 5, TimeUnit.SECONDS, new SynchronousQueue<>(),
                settings.threads());
        process = cut(printable(settings.service() + ":" + host() + ":" + ProcessHandle.current().pid()));
    }

    Settings settings() {
        return settings;
    }

    LockObserver observer() {
        return settings.observer();
    }

    boolean isClosed() {
        return closed;
    }

    /** Whether the time to close is over too: nothing is sent any more. */
    boolean isOver() {
        return over;
    }

    static LockMisuseException closedError() {
        return new LockMisuseException("the locks are closed", null);
    }

    /** A name that no other owner has, and that tells an operator who it is. */
    String freshOwner() {
        return process + ":" + UUID.randomUUID();
    }

    private static String printable(String name) {
        return name.replaceAll("[^!-~]", "?");
    }

    private static String cut(String name) {
        return name.length() <= 180 ? name : name.substring(0, 180); // room for what follows, up to 256
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }

    /** Does it soon, elsewhere. */
    @Override
    public void execute(Runnable work) {
        try {
            workers.execute(() -> {
                try {
                    work.run();
                } catch (RuntimeException e) {
                    LOG.log(System.Logger.Level.ERROR, "a callback has failed", e);
                }
            });
        } catch (RejectedExecutionException e) {
            work.run(); // all is closed
        }
    }

    /** Does it after so long, elsewhere. When the client is closed, not at all. */
    Future<?> after(long nanos, Runnable work) {
        try {
            return timer.schedule(() -> execute(work), nanos, TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            return CompletableFuture.completedFuture(null);
        }
    }

    /** The pause that follows this one: from 50 ms to 1 s. */
    static long nextPause(long pause) {
        return Math.min(LAST_PAUSE, Math.max(FIRST_PAUSE, 2 * pause));
    }

    static long jittered(long pause) {
        return pause == 0 ? 0 : ThreadLocalRandom.current().nextLong(pause / 2, pause + 1);
    }

    /** The keeper of the node that serves the key; null where that is not known. */
    @Nullable Keeper keeperNow(String key) {
        String node = server.node(key);
        return node == null ? null : keepers.computeIfAbsent(node, name -> new Keeper(this, name));
    }

    CompletableFuture<Keeper> keeper(String key) {
        Keeper known = keeperNow(key);
        if (known != null) {
            return CompletableFuture.completedFuture(known);
        }
        return refresh().thenCompose(nothing -> {
            Keeper found = keeperNow(key);
            return found != null ? CompletableFuture.completedFuture(found)
                    : CompletableFuture.failedFuture(new IOException("no node serves the slot of " + key));
        });
    }

    Collection<Keeper> keepers() {
        return keepers.values();
    }

    WaitLines waitLines(String node) {
        return waitLines.computeIfAbsent(node, name -> new WaitLines(this, name));
    }

    /** Asks where the keys are. Those who ask at the same time ask once. */
    CompletableFuture<Void> refresh() {
        CompletableFuture<Void> mine;
        synchronized (mapLock) {
            if (refreshing != null) {
                return refreshing;
            }
            mine = new CompletableFuture<>();
            refreshing = mine;
        }
        execute(() -> {
            Throwable failure = null;
            try {
                server.refresh(Duration.ofNanos(settings.reply()));
            } catch (Throwable e) { // an Error too has to be told
                failure = e;
            }
            synchronized (mapLock) {
                refreshing = null;
            }
            if (failure == null) {
                mine.complete(null);
            } else {
                mine.completeExceptionally(failure);
            }
        });
        return mine;
    }

    /** Connects; blocks for a reply's time. */
    Line connect(String node, String name) throws IOException {
        if (closed) {
            throw new IOException("the locks are closed");
        }
        Line line = new Line(this, server.connect(node, Duration.ofNanos(settings.reply())));
        line.call(Words.of("CLIENT", "SETNAME", name).bytes()); // where that is allowed
        return line;
    }

    boolean isAwaited(String key) {
        return waiting.containsKey(key);
    }

    void waits(String key, int more) {
        waiting.merge(key, more, (before, change) -> before + change == 0 ? null : before + change);
    }

    /** Releases all, calls off all waits, and ends all connections. */
    void close() {
        long until = System.nanoTime() + settings.close();
        synchronized (mapLock) {
            if (closed) {
                return;
            }
            closed = true;
        }
        LockMisuseException reason = closedError();
        Set<CompletableFuture<?>> all = ConcurrentHashMap.newKeySet();
        for (Acquire acquire : acquires) {
            acquire.end(reason);
            all.add(acquire.result());
        }
        for (Held grant : held) {
            all.add(grant.close());
        }
        calls.forEach(call -> all.add(call.result())); // also releases that were under way
        boolean interrupted = false;
        for (;;) {
            try {
                CompletableFuture.allOf(all.toArray(CompletableFuture<?>[]::new))
                        .get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (InterruptedException e) {
                interrupted = true;
                continue;
            } catch (java.util.concurrent.ExecutionException | java.util.concurrent.TimeoutException e) {
                // What could not be released is free a lease later.
            }
            break;
        }
        over = true;
        IOException why = new IOException("the locks are closed");
        keepers.values().forEach(keeper -> keeper.close(why));
        waitLines.values().forEach(lines -> lines.close(why));
        acquires.forEach(acquire -> acquire.abandon(reason));
        calls.forEach(call -> call.abandon(closedError()));
        timer.shutdownNow();
        workers.shutdown();
        server.close();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
