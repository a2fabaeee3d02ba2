package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import io.github.redislock.QuorumCall.Said;
import io.github.redislock.spi.LockServer;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * One server of several: its connections, whether it answers, and what it has yet to be told. Where it does not answer,
 * it is left alone by all calls but one that looks for it.
 */
final class QuorumMember {
    /** How many releases are kept for a server that is down. Those that it is not told of end with their leases. */
    private static final int MOST_OWED = 10_000;
    private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long LAST_PAUSE = TimeUnit.SECONDS.toNanos(1);

    /** Is sent when the server is back. That of an owner that is never used again is right at any time. */
    private record Release(String key, String owner) {
        Words words() {
            return Words.of("LOCK.RELEASE", key, owner, "ALL");
        }
    }

    private final Scope scope;
    private final LockServer server;
    private final String name;
    private final WaitLines waitLines;
    private @Nullable Line line;
    /** Who waits for the line that is being opened: told in this order, so that a release comes behind its request. */
    private @Nullable Deque<CompletableFuture<Line>> opening;
    private volatile @Nullable Throwable down;
    private CompletableFuture<@Nullable Void> back = CompletableFuture.completedFuture(null);
    private final Deque<Release> owed = new ArrayDeque<>();
    private boolean isClosed;

    QuorumMember(Scope scope, LockServer server, String name) {
        this.scope = scope;
        this.server = server;
        this.name = name;
        waitLines = new WaitLines(scope, () -> connect("lock-wait"));
    }

    /** Its address, or its place where that is not known. */
    @Override
    public String toString() {
        return name;
    }

    /** Why it is left alone; null where it is not. */
    @Nullable Throwable down() {
        return down;
    }

    /** Is completed when it answers again; at once where it does. */
    synchronized CompletableFuture<@Nullable Void> back() {
        return back;
    }

    WaitLines waitLines() {
        return waitLines;
    }

    private Line connect(String as) throws IOException {
        if (server.node("") == null) {
            server.refresh(Duration.ofNanos(scope.settings().reply()));
        }
        String node = server.node("");
        if (node == null) {
            throw new IOException("its address is not known");
        }
        return scope.connect(server, node, as);
    }

    /** The open line for all that does not wait, or the next. */
    CompletableFuture<Line> line() {
        CompletableFuture<Line> mine = new CompletableFuture<>();
        synchronized (this) {
            if (opening != null) {
                opening.add(mine);
                return mine;
            }
            if (line != null && line.isOpen()) {
                return CompletableFuture.completedFuture(line);
            }
            opening = new ArrayDeque<>(List.of(mine));
        }
        scope.execute(this::open);
        return mine;
    }

    private void open() {
        Line fresh = null;
        Throwable failure = null;
        try {
            fresh = connect("lock-quorum");
            fresh.watch(true);
        } catch (Throwable e) { // an Error too has to be told
            failure = e;
        }
        if (failure != null && new Said(null, failure, false).isPassing()) {
            learn(failure, null);
        }
        for (CompletableFuture<Line> next = next(fresh); next != null; next = next(fresh)) {
            if (failure == null) {
                next.complete(fresh);
            } else {
                next.completeExceptionally(failure);
            }
        }
        boolean isLate;
        synchronized (this) {
            isLate = isClosed;
        }
        if (fresh != null && isLate) {
            fresh.close(new IOException("the locks are closed"));
        }
    }

    /** Who is to be told next of the line; when nobody is left, it is for all. */
    private synchronized @Nullable CompletableFuture<Line> next(@Nullable Line fresh) {
        CompletableFuture<Line> next = opening == null ? null : opening.poll();
        if (next == null) {
            opening = null;
            line = fresh;
        }
        return next;
    }

    /** Takes note of a failure that says that the server does not answer. The line may still owe a reply. */
    void learn(@Nullable Throwable failure, @Nullable Line on) {
        Throwable why = failure == null ? new IOException("no answer") : failure;
        if (on != null) {
            on.close(why);
        }
        leaveAlone(why, null);
    }

    private void leaveAlone(Throwable why, @Nullable Release missed) {
        synchronized (this) {
            if (isClosed) {
                return;
            }
            if (missed != null) {
                if (owed.size() == MOST_OWED) {
                    owed.removeFirst();
                }
                owed.addLast(missed);
            }
            if (down != null) {
                return;
            }
            down = why;
            back = new CompletableFuture<>();
        }
        scope.observer().keeperEnded(name, why);
        Scope.LOG.log(System.Logger.Level.WARNING, "{0} does not answer: {1}", name, why.getMessage());
        lookForIt(FIRST_PAUSE);
    }

    /**
     * Sees to it that the owner holds nothing: at once, or when the server is back. On the line on which it has asked
     * for the lock that is also true of what the server has not yet read. It is told when that was tried.
     */
    CompletableFuture<Said> release(String key, String owner, @Nullable Line on, long limit) {
        return release(key, owner, on, releasing(key, owner, limit));
    }

    /** The call of a release, which may be called off. */
    QuorumCall releasing(String key, String owner, long limit) {
        return new QuorumCall(scope, this, new Release(key, owner).words(), limit);
    }

    /** The same by this call. */
    CompletableFuture<Said> release(String key, String owner, @Nullable Line on, QuorumCall call) {
        return (on == null ? call.start() : call.startOn(on)).thenApply(said -> {
            if (said.failure() != null && said.isPassing() && !said.isCalledOff()) {
                leaveAlone(said.failure(), new Release(key, owner));
            }
            return said;
        });
    }

    private void lookForIt(long pause) {
        scope.after(pause, () -> isBack().whenComplete((isBack, failure) -> {
            if (failure != null || !isBack) {
                lookForIt(Math.min(2 * pause, LAST_PAUSE));
            }
        }));
    }

    /** Whether it answers, and has been told what it had missed. */
    private CompletableFuture<Boolean> isBack() {
        return line().thenCompose(open -> open.call(Words.PING).thenCompose(answer -> {
            if (answer.error() != null) {
                return CompletableFuture.completedFuture(false);
            }
            List<Release> missed;
            CompletableFuture<@Nullable Void> told;
            synchronized (this) {
                missed = List.copyOf(owed);
                owed.clear();
                told = back;
                if (missed.isEmpty()) {
                    down = null;
                }
            }
            if (missed.isEmpty()) {
                scope.observer().keeperOpened(name);
                told.complete(null);
                return CompletableFuture.completedFuture(true);
            }
            return tell(open, missed);
        }));
    }

    /** Sends these releases. Those that are not answered are kept, before those that have come meanwhile. */
    private CompletableFuture<Boolean> tell(Line open, List<Release> missed) {
        List<CompletableFuture<Boolean>> answers = missed.stream()
                .map(release -> open.call(release.words().bytes()).handle(QuorumMember::isTold)).toList();
        return CompletableFuture.allOf(answers.toArray(CompletableFuture<?>[]::new)).thenCompose(nothing -> {
            List<Release> still = new ArrayList<>();
            for (int n = 0; n < missed.size(); n++) {
                if (!answers.get(n).join()) {
                    still.add(missed.get(n));
                }
            }
            if (still.isEmpty()) {
                return isBack();
            }
            synchronized (this) {
                for (int n = still.size() - 1; n >= 0 && owed.size() < MOST_OWED; n--) {
                    owed.addFirst(still.get(n));
                }
            }
            return CompletableFuture.completedFuture(false);
        });
    }

    private static boolean isTold(@Nullable Answer answer, @Nullable Throwable broken) {
        return answer != null && (answer.error() == null || Meaning.of(answer.error(), Kind.RELEASE) != Meaning.PASSING);
    }

    void close(Throwable why) {
        Line last;
        synchronized (this) {
            isClosed = true;
            owed.clear();
            last = line;
        }
        if (last != null) {
            last.close(why);
        }
        waitLines.close(why);
    }

    void closeServer() {
        server.close();
    }
}
