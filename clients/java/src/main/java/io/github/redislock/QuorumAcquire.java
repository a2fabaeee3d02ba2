package io.github.redislock;

import io.github.redislock.QuorumOutcome.Failed;
import io.github.redislock.QuorumOutcome.Got;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * One call for a lock on several servers: attempt after attempt, each with an owner of its own, and in between a place
 * in the line of a server that says that the lock is not free.
 */
final class QuorumAcquire {
    /**
     * How long a wait in one server's line lasts before all are tried again, besides up to as much again by chance: that
     * server may be the only one where the lock is not free.
     */
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(1);
    private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(1);
    private static final long LONGEST_FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long LONGEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(250);

    private final Quorum quorum;
    private final LockSpec spec;
    private final @Nullable Task task;
    private final long wait;
    private final long begun = System.nanoTime();
    private final TimeLimit limit;
    private final CompletableFuture<Ownership> result = new CompletableFuture<>();
    /** Calls off what is under way, and tells when nothing is left of it. */
    private Supplier<CompletableFuture<?>> underWay = () -> CompletableFuture.completedFuture(null);
    private @Nullable Throwable verdict;
    private boolean isDecided;
    private @Nullable Failed last;
    private long longestPause;

    /** The wait is in nanoseconds; 0 is now or not at all. */
    QuorumAcquire(Quorum quorum, LockSpec spec, @Nullable Task task, long wait) {
        this.quorum = quorum;
        this.spec = spec;
        this.task = task;
        this.wait = wait;
        limit = new TimeLimit(quorum, this::outOfTime);
    }

    CompletableFuture<Ownership> result() {
        return result;
    }

    QuorumAcquire begin() {
        quorum.acquires.add(this);
        if (quorum.isClosed()) {
            finish(Scope.closedError());
            return this;
        }
        limit.set(wait == Acquire.FOR_EVER ? wait : begun + wait + quorum.settings().reply());
        attempt(quorum.freshOwner(), null, begun);
        return this;
    }

    private long left(long ofAll) {
        return wait == Acquire.FOR_EVER ? wait : ofAll - (System.nanoTime() - begun);
    }

    /** Whether it goes on: this is what ends what it does now. */
    private synchronized boolean goesOn(Supplier<CompletableFuture<?>> end) {
        if (verdict != null || isDecided) {
            return false;
        }
        underWay = end;
        return true;
    }

    private void attempt(String owner, @Nullable QuorumMember turn, long since) {
        QuorumAttempt made = new QuorumAttempt(quorum, spec, owner, turn);
        if (!goesOn(made::callOff)) {
            return;
        }
        made.begin().whenComplete((outcome, defect) -> {
            if (outcome instanceof Got got) {
                obtained(owner, got);
                return;
            }
            // Who is told that it has failed has left nothing on a server that answers.
            long most = quorum.limit(spec.lease().toNanos());
            CompletableFuture<?> settled = made.settled();
            quorum.inBackground(settled);
            quorum.soonest(settled, most).whenComplete((nothing, failure) -> failed((Failed) outcome, since));
        });
    }

    private void obtained(String owner, Got got) {
        synchronized (this) {
            if (verdict != null || isDecided) {
                return; // who has ended it sees to its release
            }
            isDecided = true;
        }
        Ownership grant = quorum.hold(spec, owner, got, task);
        forget();
        quorum.observer().acquired(spec.key(), Duration.ofNanos(System.nanoTime() - begun));
        if (!result.complete(grant)) {
            grant.release();
        }
    }

    private void failed(Failed failure, long since) {
        // Without a wait, there is time for servers alone, not for the lock.
        long left = left(failure.isBusy() ? wait : Math.max(wait, quorum.settings().reply()));
        synchronized (this) {
            if (verdict != null) {
                return;
            }
            last = failure;
        }
        if (!failure.mayPass() || left <= 0) {
            finish(failure.error());
            return;
        }
        long most = Math.min(LONGEST_FIRST_PAUSE, Math.max(SHORTEST_PAUSE, System.nanoTime() - since));
        longestPause = Math.min(LONGEST_PAUSE, Math.max(most, 2 * longestPause));
        // A part of it by chance lets one of several that have split the servers among them come first.
        long pause = Math.min(left, ThreadLocalRandom.current().nextLong(longestPause) + 1);
        if (goesOn(() -> CompletableFuture.completedFuture(null))) {
            quorum.after(pause, () -> next(failure.first()));
        }
    }

    private void next(@Nullable QuorumMember line) {
        long now = System.nanoTime();
        String owner = quorum.freshOwner();
        if (line == null) {
            attempt(owner, null, now);
            return;
        }
        long patience = PATIENCE + ThreadLocalRandom.current().nextLong(PATIENCE);
        QuorumTurn turn = new QuorumTurn(quorum, line, spec, owner, Math.min(patience, Math.max(0, left(wait))));
        if (goesOn(turn::callOff)) {
            turn.begin().thenAccept(isServed -> attempt(isServed ? owner : quorum.freshOwner(), isServed ? line : null, now));
        }
    }

    /** Ends it: cancelled or closed. Leaves neither a hold nor a place in a line. */
    void end(Throwable reason) {
        Supplier<CompletableFuture<?>> end = decide(reason);
        if (end != null) {
            CompletableFuture<?> left = end.get();
            quorum.inBackground(left);
            quorum.soonest(left, quorum.settings().reply()).whenComplete((nothing, failure) -> finish(reason));
        }
    }

    private void outOfTime() {
        Failed failure;
        synchronized (this) {
            failure = last;
        }
        Throwable reason = failure != null ? failure.error() : quorum.tooFew(spec.key(), member -> null);
        Supplier<CompletableFuture<?>> end = decide(reason);
        if (end != null) {
            quorum.inBackground(end.get());
            finish(reason);
        }
    }

    private synchronized @Nullable Supplier<CompletableFuture<?>> decide(Throwable reason) {
        if (verdict != null || isDecided) {
            return null;
        }
        verdict = reason;
        return underWay;
    }

    private void finish(Throwable failure) {
        forget();
        if (result.completeExceptionally(failure)) {
            quorum.observer().refused(spec.key(), Duration.ofNanos(System.nanoTime() - begun), failure);
        }
    }

    /** All connections are gone. */
    void abandon(Throwable reason) {
        finish(reason);
    }

    private void forget() {
        quorum.acquires.remove(this);
        limit.cancel();
    }
}
