package io.github.redislock;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** One unbroken ownership of a lock, on one server or on several. All its holds end with it. */
abstract class Ownership {
    private final Scope scope;
    private final String key;
    private final String owner;
    private final long token;
    private final long began = System.nanoTime();
    private final @Nullable Task task;
    private final Fate fate;
    private final Turns turns = new Turns();
    private volatile int holds;
    private volatile boolean exclusive;
    /** Of the holds, those that a read lock counts. */
    int readers;

    Ownership(Scope scope, LockSpec spec, String owner, long token, int holds, @Nullable Task task) {
        this.scope = scope;
        this.key = spec.key();
        this.owner = owner;
        this.token = token;
        this.holds = holds;
        this.task = task;
        exclusive = spec.isExclusive();
        fate = new Fate(scope);
    }

    final String key() {
        return key;
    }

    final String owner() {
        return owner;
    }

    final long token() {
        return token;
    }

    final int holds() {
        return holds;
    }

    final boolean isExclusive() {
        return exclusive;
    }

    final boolean isHeld() {
        return fate.isHeld();
    }

    final @Nullable LockLostException loss() {
        return fate.loss();
    }

    /** When it was taken. */
    final long began() {
        return began;
    }

    /** Past this it is lost. */
    abstract long knownUntil();

    final Duration remaining() {
        return Duration.ofNanos(isHeld() ? Math.max(0, knownUntil() - System.nanoTime()) : 0);
    }

    final void onLost(Consumer<LockLostException> listener) {
        fate.onLost(listener);
    }

    /** Tells its loss, once. */
    final void lose(Throwable why) {
        LockLostException error = why instanceof LockLostException lost ? lost
                : new LockLostException(key + ": " + why.getMessage(), why);
        fate.lose(error, () -> {
            over();
            scope.observer().lost(key, Duration.ofNanos(System.nanoTime() - began));
        });
    }

    /** Nobody has to see to it any more. */
    abstract void over();

    /** Told again, with the place where it is told. */
    static LockLostException again(LockLostException lost) {
        return new LockLostException(lost.getMessage(), lost);
    }

    /** Adds a hold. */
    final CompletableFuture<Ownership> enterAgain(LockSpec spec, long deadline) {
        return turns.take(() -> {
            LockLostException lost = fate.loss();
            if (lost != null) {
                return CompletableFuture.failedFuture(again(lost));
            }
            int wanted = holds + 1;
            return enter(spec, wanted, deadline).thenApply(nothing -> {
                holds = wanted;
                exclusive |= spec.isExclusive();
                return this;
            });
        });
    }

    /** Tells the servers of so many holds, where they count them. */
    abstract CompletableFuture<?> enter(LockSpec spec, int wanted, long deadline);

    /** Gives back one hold; the last one ends the grant. */
    final CompletableFuture<@Nullable Void> release() {
        return release(Caller.NONE);
    }

    /** The same for a caller that goes on with {@link Attempt#await(Caller, CompletableFuture)}. */
    final CompletableFuture<@Nullable Void> release(Caller caller) {
        return task == null ? releaseOne(caller) : turns.take(() -> releaseOne(caller));
    }

    private CompletableFuture<@Nullable Void> releaseOne(Caller caller) {
        int left;
        synchronized (this) {
            left = --holds;
        }
        if (left == 0) {
            fate.release();
        }
        if (left == 0 && task != null) {
            task.forget(this);
        }
        LockLostException lost = fate.loss();
        if (lost != null) {
            return CompletableFuture.failedFuture(again(lost));
        }
        CompletableFuture<@Nullable Void> told = giveBack(left, caller); // the next in line waits for it
        if (left == 0) {
            over();
            scope.observer().released(key, Duration.ofNanos(System.nanoTime() - began));
        }
        return told;
    }

    /** The same, told by a thread that may block: what depends on it may use the locks. */
    final <T extends @Nullable Object> CompletableFuture<T> handedOver(CompletableFuture<T> outcome) {
        CompletableFuture<T> told = new CompletableFuture<>();
        outcome.whenComplete((value, failure) -> scope.execute(() -> {
            if (failure == null) {
                told.complete(value);
            } else {
                told.completeExceptionally(Line.unwrapped(failure));
            }
        }));
        return told;
    }

    /** Tells the servers that so many holds are left. */
    abstract CompletableFuture<@Nullable Void> giveBack(int left, Caller caller);

    /** Ends it with its client: whoever works under it is told. */
    final CompletableFuture<@Nullable Void> close() {
        if (!isHeld()) {
            return CompletableFuture.completedFuture(null);
        }
        lose(new LockLostException(key + ": the locks are closed", null));
        return giveBack(0, Caller.NONE).exceptionally(failure -> null);
    }

    /** Leaves it to this lease. */
    final CompletableFuture<@Nullable Void> detach(Duration lease) {
        LockLostException lost = fate.release() ? null : fate.loss();
        if (lost != null) {
            return CompletableFuture.failedFuture(again(lost));
        }
        if (task != null) {
            task.forget(this);
        }
        over();
        scope.observer().released(key, Duration.ofNanos(System.nanoTime() - began));
        return leave(lease);
    }

    /** Tells the servers that nobody keeps it, and that it ends with this lease. */
    abstract CompletableFuture<@Nullable Void> leave(Duration lease);

    /** Asks the servers. */
    abstract CompletableFuture<@Nullable Void> check();

    /** Gives it another lease, from now on. */
    abstract CompletableFuture<@Nullable Void> extend(Duration lease);

    /** Lets others in who share. */
    final CompletableFuture<@Nullable Void> downgrade() {
        return share().thenApply(nothing -> {
            exclusive = false;
            return nothing;
        });
    }

    /** Tells the servers that it is shared from now on. */
    abstract CompletableFuture<@Nullable Void> share();
}
