package io.github.redislock;

import io.github.redislock.spi.ReplyError;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Connections to a server for calls that wait: as many as wait at one time, the last used first. */
final class WaitLines {
    private static final int IDLE = 256;
    private static final long MOMENT = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long STAY = TimeUnit.MINUTES.toNanos(1);

    private static final class Idle {
        private final Line line;
        private final long since = System.nanoTime();
        private boolean isWatched;

        Idle(Line line) {
            this.line = line;
        }

        boolean isOlder(long age) {
            return System.nanoTime() - since >= age;
        }
    }

    /** Opens one. */
    interface Dial {
        Line open() throws IOException;
    }

    private final Scope scope;
    private final Dial dial;
    private final Deque<Idle> idle = new ArrayDeque<>();
    private final Set<Line> used = new HashSet<>();
    private boolean sweeping;
    private boolean watching;
    private boolean closed;

    WaitLines(Scope scope, Dial dial) {
        this.scope = scope;
        this.dial = dial;
    }

    /** One that is open already, if there is one. */
    @Nullable Line takeIdle() {
        Idle last;
        synchronized (this) {
            do {
                last = idle.pollFirst();
            } while (last != null && !last.line.isOpen());
            if (last == null) {
                return null;
            }
            used.add(last.line);
        }
        if (last.isWatched) {
            last.line.watch(false);
        }
        return last.line;
    }

    CompletableFuture<Line> take() {
        Line open = takeIdle();
        if (open != null) {
            return CompletableFuture.completedFuture(open);
        }
        CompletableFuture<Line> taken = new CompletableFuture<>();
        scope.execute(() -> {
            try {
                Line fresh = dial.open();
                if (isUsed(fresh)) {
                    taken.complete(fresh);
                } else {
                    IOException why = new IOException("the locks are closed");
                    fresh.close(why);
                    taken.completeExceptionally(why);
                }
            } catch (Throwable e) { // an Error too has to be told
                taken.completeExceptionally(e);
            }
        });
        return taken;
    }

    private synchronized boolean isUsed(Line fresh) {
        return !closed && used.add(fresh);
    }

    /** Takes back a line that owes no reply. */
    void giveBack(Line line) {
        List<Line> over = new ArrayList<>();
        synchronized (this) {
            used.remove(line);
            if (!line.isOpen()) {
                return;
            }
            if (closed) {
                over.add(line);
            } else {
                idle.addFirst(new Idle(line));
                if (idle.size() > IDLE) {
                    over.add(idle.removeLast().line);
                }
                watchLater();
                sweepLater();
            }
        }
        over.forEach(one -> one.close(new IOException("idle")));
    }

    /** The same after this error, if any. Where a replica has answered, the next is to find another server. */
    void giveBackAfter(Line line, @Nullable ReplyError error) {
        if (error != null && Meaning.isOfReplica(error.getMessage())) {
            drop(line, error);
            dropIdle(error);
        } else {
            giveBack(line);
        }
    }

    /** Ends a line that may owe a reply. */
    void drop(@Nullable Line line, Throwable why) {
        if (line != null) {
            synchronized (this) {
                used.remove(line);
            }
            line.close(why);
        }
    }

    /** Ends what is idle. */
    private void dropIdle(Throwable why) {
        List<Idle> all;
        synchronized (this) {
            all = List.copyOf(idle);
            idle.clear();
        }
        all.forEach(one -> one.line.close(why));
    }

    private void sweepLater() {
        if (!sweeping) {
            sweeping = true;
            scope.after(STAY, this::sweep);
        }
    }

    private void sweep() {
        List<Line> over = new ArrayList<>();
        synchronized (this) {
            sweeping = false;
            for (Idle oldest = idle.peekLast(); oldest != null && oldest.isOlder(STAY); oldest = idle.peekLast()) {
                over.add(idle.removeLast().line);
            }
            if (!idle.isEmpty()) {
                sweepLater();
            }
        }
        over.forEach(one -> one.close(new IOException("idle")));
    }

    private void watchLater() {
        if (!watching) {
            watching = true;
            scope.after(MOMENT, this::watch);
        }
    }

    /** The end of one that has been idle for a moment is to be noticed. */
    private synchronized void watch() {
        watching = false;
        for (Idle one : idle) {
            if (one.isWatched) {
                continue;
            }
            if (one.isOlder(MOMENT)) {
                one.isWatched = true;
                one.line.watch(true);
            } else {
                watchLater();
            }
        }
    }

    void close(Throwable why) {
        List<Line> all = new ArrayList<>();
        synchronized (this) {
            closed = true;
            idle.forEach(one -> all.add(one.line));
            idle.clear();
            all.addAll(used);
            used.clear();
        }
        all.forEach(line -> line.close(why));
    }
}
