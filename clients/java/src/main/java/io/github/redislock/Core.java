package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Answer;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Name;
import io.github.redislock.state.State;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * What all locks of one client share: the state with its mutex, the loops, and calls. The mutex is a monitor: with a
 * ReentrantLock, virtual threads that are pinned could wait for one that has no carrier.
 */
final class Core {
    private static final long EPOCH = System.nanoTime();
    private static final System.Logger LOG = System.getLogger("io.github.redislock");

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

    /** Does something with the state, at the time of now, and wakes the callers of what has changed. */
    <T extends @Nullable Object> T atomically(Function<State, T> work) {
        synchronized (state) {
            state.at = Math.max(now(), state.at + 1);
            try {
                return work.apply(state);
            } finally {
                for (int i = 0; i < state.changed.size(); i++) {
                    state.changed.get(i).wake.run();
                }
                state.changed.clear();
                state.elsewhere.forEach(claim -> elsewhere(claim.find));
                state.elsewhere.clear();
                for (String[] command : state.misplaced) {
                    elsewhere(() -> call(new Target(command[1]), loop -> command));
                }
                state.misplaced.clear();
            }
        }
    }

    /** Notifies the observer. What that throws is logged. */
    void observe(Consumer<LockObserver> notify) {
        try {
            notify.accept(settings.observer());
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.ERROR, "an observer has failed", e);
        }
    }

    void update(Consumer<State> work) {
        atomically(state -> {
            work.accept(state);
            return null;
        });
    }

    /** Where the next command goes: to this loop's server if it is about no key, or else where the key is. */
    static final class Target {
        final @Nullable String key;
        @Nullable Loop loop;
        boolean isAsking; // ASK led there

        Target(String key) {
            this.key = key;
        }

        Target(Loop loop) {
            key = null;
            this.loop = loop;
        }
    }

    private Loop loopOf(ServerNode node) {
        return loops.computeIfAbsent(node, it -> new Loop(this, it));
    }

    /** Finds where the next command about a key goes: where the last reply leads, or else to the node that has it. */
    @Nullable Fault route(Target to, @Nullable Fault last, long limit) {
        Loop from = to.loop;
        ServerNode at = from == null || last == null ? null : server.redirected(from.server, last);
        to.isAsking = at != null && last != null && last.word().equals("ASK");
        Fault fault = null;
        if (at == null) {
            LockServer.Place found = server.find(String.valueOf(to.key), limit);
            at = found.node();
            fault = found.fault();
        }
        to.loop = at == null ? null : loopOf(at);
        return fault;
    }

    /** Sends a command until it is answered, for two reply timeouts. The command is null while it has no session. */
    Answer call(Target to, Function<Loop, String @Nullable []> command) {
        return call(to, now() + 2 * settings.reply(), command);
    }

    Answer call(Target to, long end, Function<Loop, String @Nullable []> command) {
        Pauses pauses = new Pauses();
        Reply reply = Reply.of((Object) null);
        long sent = now();
        boolean wasOpen = false;
        for (;;) {
            Fault fault = to.key == null ? null : route(to, reply.fault(), Math.min(settings.reply(), end - now()));
            Loop loop = to.loop;
            String[] words = loop == null ? null : command.apply(loop);
            if (loop == null || words == null) {
                reply = Reply.of(fault != null ? fault : Fault.none(false, "no session", null));
            } else {
                sent = now();
                reply = loop.call(to.isAsking, Math.min(settings.reply(), end - sent), words);
            }
            long rest = pauses.next();
            if (!reply.isPassing() || to.key == null && reply.is("NOSESSION") || now() + rest >= end) {
                return new Answer(sent, reply, wasOpen);
            }
            wasOpen |= reply.isOpen();
            pause(rest);
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

    /** Registers a call in a claim's name, makes it, and forgets it. */
    <T extends @Nullable Object> T registered(Name name, Supplier<T> call) {
        int number = atomically(state -> state.beginCall(name));
        try {
            return call.get();
        } finally {
            update(state -> state.endCall(number));
        }
    }

    /** Ends all waits, releases all locks and closes the connections. */
    void close() {
        List<Claim> grants = atomically(state -> {
            boolean wasClosed = state.isClosed();
            isClosing = true;
            return wasClosed ? null : state.close();
        });
        if (grants != null) {
            new Closing(this, grants).run();
            timer.shutdownNow();
            server.close();
            background.shutdown();
        }
    }

    /** Waits for a reply. An interrupt does not end that, and is kept. */
    static <T> T take(BlockingQueue<T> replies) {
        boolean wasInterrupted = false;
        for (;;) {
            try {
                T reply = replies.take();
                if (wasInterrupted) {
                    Thread.currentThread().interrupt();
                }
                return reply;
            } catch (InterruptedException e) {
                wasInterrupted = true;
            }
        }
    }

    /** Waits for the end of a thread. An interrupt does not end that, and is kept. */
    static void join(Thread thread, long nanos) {
        long end = now() + nanos;
        while (thread.isAlive() && now() < end) {
            pause(TimeUnit.MILLISECONDS.toNanos(1));
        }
    }
}
