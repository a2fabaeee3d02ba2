package io.github.redislock;

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
    private static final int IDLE = 16;
    private static final long STAY = TimeUnit.MINUTES.toNanos(1);

    private record Idle(Line line, long since) {}

    /** Opens one. */
    interface Dial {
        Line open() throws IOException;
    }

    private final Scope scope;
    private final Dial dial;
    private final Deque<Idle> idle = new ArrayDeque<>();
    private final Set<Line> used = new HashSet<>();
    private boolean sweeping;
    private boolean closed;

    WaitLines(Scope scope, Dial dial) {
        this.scope = scope;
        this.dial = dial;
    }

    CompletableFuture<Line> take() {
        synchronized (this) {
            for (Idle last = idle.pollFirst(); last != null; last = idle.pollFirst()) {
                if (last.line.isOpen()) {
                    used.add(last.line);
                    return CompletableFuture.completedFuture(last.line);
                }
            }
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
                idle.addFirst(new Idle(line, System.nanoTime()));
                if (idle.size() > IDLE) {
                    over.add(idle.removeLast().line);
                }
                sweepLater();
            }
        }
        over.forEach(one -> one.close(new IOException("idle")));
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
            for (Idle oldest = idle.peekLast(); oldest != null && System.nanoTime() - oldest.since >= STAY;
                    oldest = idle.peekLast()) {
                over.add(idle.removeLast().line);
            }
            if (!idle.isEmpty()) {
                sweepLater();
            }
        }
        over.forEach(one -> one.close(new IOException("idle")));
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
