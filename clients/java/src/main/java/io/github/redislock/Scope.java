package io.github.redislock;

import io.github.redislock.spi.LockServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.Collection;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/** What the parts of one client share, on one server or on several: its threads, its owners, and what it holds. */
abstract class Scope implements Executor {
    private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);
    /** Near a limit they are no shorter. */
    static final long LEAST_PAUSE = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long LAST_PAUSE = TimeUnit.SECONDS.toNanos(1);
    /** Of a UUID's lower half what is no mark of its kind. */
    private static final long LOW_PART = -1L >>> 2;
    static final System.Logger LOG = System.getLogger("io.github.redislock");

    private final Settings settings;
    private final ScheduledThreadPoolExecutor timer;
    private final ThreadPoolExecutor workers;
    private final String process;
    private final UUID first = UUID.randomUUID();
    private final AtomicLong owners = new AtomicLong();
    final Set<Ownership> held = ConcurrentHashMap.newKeySet();
    private final AtomicBoolean closed = new AtomicBoolean();
    private volatile boolean over;

    Scope(Settings settings) {
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
        return closed.get();
    }

    /** Whether the time to close is over too: nothing is sent any more. */
    boolean isOver() {
        return over;
    }

    static LockMisuseException closedError() {
        return new LockMisuseException("the locks are closed", null);
    }

    /**
     * Begins to take a lock; the wait is in nanoseconds, 0 is now or not at all. Without an owner it is a fresh one.
     * A caller goes on with {@link Attempt#get}.
     */
    abstract Attempt take(LockSpec spec, @Nullable String owner, @Nullable Task task, long wait, Caller caller);

    /** Takes over a grant that was taken by another process, or an earlier one. */
    final Ownership adopt(LockSpec spec, String owner, long token) {
        for (Ownership mine : held) {
            if (mine.isUnnamed(spec.key(), owner, token)) {
                Ownership again = Attempt.await(mine.adoptAgain(spec));
                if (again != null) {
                    return again; // held once more
                }
            }
        }
        return adoptOthers(spec, owner, token);
    }

    /** The same for what is not held here in an owner's name of its own. */
    abstract Ownership adoptOthers(LockSpec spec, String owner, long token);

    /** How to look at locks from outside. */
    abstract Look look();

    /** Throws where such a lock cannot be had here. */
    void check(LockSpec spec, @Nullable String owner) {
        if (spec.isPermit() && owner != null) {
            throw new LockMisuseException(spec.key() + ": a permit has an owner of its own", null);
        }
    }

    /** Whether several may hold a lock at once. */
    boolean canShare() {
        return true;
    }

    /** A name that no other owner has, and that tells an operator who it is. Only the first asks for randomness, which is slow. */
    String freshOwner() {
        long low = first.getLeastSignificantBits();
        long next = low & ~LOW_PART | low + owners.getAndIncrement() & LOW_PART;
        return process + ":" + new UUID(first.getMostSignificantBits(), next);
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

    /** A pause before which so much is left: the last try needs time for its answer. */
    static long pauseWithin(long left, long pause) {
        return Math.min(jittered(pause), Math.max(LEAST_PAUSE, left / 2));
    }

    static long jittered(long pause) {
        return pause == 0 ? 0 : ThreadLocalRandom.current().nextLong(pause / 2, pause + 1);
    }

    /** Connects; blocks for a reply's time. */
    Line connect(LockServer server, String node, String name) throws IOException {
        if (isClosed()) {
            throw new IOException("the locks are closed");
        }
        Line line = new Line(this, server.connect(node, Duration.ofNanos(settings.reply())));
        line.greet(Words.of("CLIENT", "SETNAME", name)); // where that is allowed
        return line;
    }

    /** Releases all, calls off all waits, and ends all connections. */
    void close() {
        long until = System.nanoTime() + settings.close();
        if (!closed.compareAndSet(false, true)) {
            return;
        }
        LockMisuseException reason = closedError();
        Set<CompletableFuture<?>> all = ConcurrentHashMap.newKeySet();
        all.addAll(callOff(reason));
        for (Ownership grant : held) {
            all.add(grant.close());
        }
        all.addAll(releasing());
        boolean interrupted = false;
        for (;;) {
            try {
                CompletableFuture.allOf(all.toArray(CompletableFuture<?>[]::new))
                        .get(Math.max(0, until - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (InterruptedException e) {
                interrupted = true;
                continue;
            } catch (ExecutionException | TimeoutException e) {
                // What could not be released is free a lease later.
            }
            break;
        }
        over = true;
        disconnect(reason);
        timer.shutdownNow();
        workers.shutdown();
        closeServers();
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Ends what waits for a lock, for this reason. Gives what is to be waited for. */
    abstract Collection<? extends CompletableFuture<?>> callOff(LockMisuseException reason);

    /** What is being released just now. */
    abstract Collection<? extends CompletableFuture<?>> releasing();

    /** Ends all connections, and what still waits for them. */
    abstract void disconnect(LockMisuseException reason);

    abstract void closeServers();
}
