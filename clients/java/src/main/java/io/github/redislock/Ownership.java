package io.github.redislock;

import java.time.Duration;
import java.util.List;
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
    private volatile @Nullable LockLostException found; // also by its release
    private final List<String> mode;
    private volatile boolean isAdopted; // here, too: so it is given back in turn
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
        mode = spec.mode();
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

    /** Gives what ends that. */
    final Runnable onLost(Consumer<LockLostException> listener) {
        return fate.onLost(listener);
    }

    /** Tells its loss, once, and gives what was told of it. */
    final LockLostException lose(Throwable why) {
        LockLostException error = why instanceof LockLostException lost ? lost
                : new LockLostException(key + ": " + why.getMessage(), why);
        if (found == null) {
            found = error;
        }
        fate.lose(error, () -> {
            over();
            if (task != null && task.isNamed()) {
                task.forget(this); // who asks in that name again begins anew
            }
            scope.observer().lost(key, Duration.ofNanos(System.nanoTime() - began));
        });
        LockLostException told = fate.loss();
        return told != null ? told : error;
    }

    /** Whether the error tells the loss of this grant. */
    final boolean isLossOf(Throwable error) {
        LockLostException own = found;
        return own != null && (error == own || error instanceof LockLostException && error.getCause() == own);
    }

    /** Nobody has to see to it any more. */
    abstract void over();

    /** Told again, with the place where it is told. */
    static LockLostException again(LockLostException lost) {
        return new LockLostException(lost.getMessage(), lost);
    }

    /** Adds a hold for whoever adopts it in this client, in the mode that it has. Gives null where it has been released. */
    final CompletableFuture<@Nullable Ownership> adoptAgain(LockSpec spec) {
        synchronized (this) {
            if (holds == 0) {
                return CompletableFuture.completedFuture(null);
            }
            isAdopted = true;
        }
        List<String> now = exclusive ? List.of() : mode.isEmpty() ? List.of("SHARED") : mode;
        return enterAgain(new LockSpec(key, now, spec.lease(), spec.keepMs(), spec.atMost(), 0));
    }

    /** Whether it is this one, in a name that nobody has given. */
    final boolean isUnnamed(String key, String owner, long token) {
        return this.key.equals(key) && this.owner.equals(owner) && this.token == token
                && (task == null || !task.isNamed());
    }

    /** Adds a hold. Gives null where it has been released meanwhile. */
    final CompletableFuture<@Nullable Ownership> enterAgain(LockSpec spec) {
        long deadline = System.nanoTime() + scope.settings().reply(); // the turn included
        return turns.take(() -> {
            LockLostException lost = fate.loss();
            if (lost != null) {
                return CompletableFuture.failedFuture(again(lost));
            }
            if (!isHeld()) {
                return CompletableFuture.completedFuture(null);
            }
            if (deadline - System.nanoTime() <= 0) {
                return CompletableFuture.failedFuture(Meaning.PASSING.error(key, null));
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
        long deadline = System.nanoTime() + scope.settings().release();
        int left;
        synchronized (this) {
            left = task != null || isAdopted ? -1 : --holds;
        }
        return left >= 0 ? releaseTo(left, caller, deadline) : turns.take(() -> {
            synchronized (this) {
                holds--;
            }
            return releaseTo(holds, caller, deadline);
        });
    }

    private CompletableFuture<@Nullable Void> releaseTo(int left, Caller caller, long deadline) {
        if (left == 0) {
            fate.release();
        }
        LockLostException lost = fate.loss();
        if (lost != null) {
            if (left == 0 && task != null) {
                task.forget(this);
            }
            return CompletableFuture.failedFuture(again(lost));
        }
        CompletableFuture<@Nullable Void> told = giveBack(left, caller, deadline); // the next in line waits for it
        if (left == 0) {
            over();
            scope.observer().released(key, Duration.ofNanos(System.nanoTime() - began));
        }
        return left == 0 && task != null ? forgottenAfter(told, task) : told;
    }

    /** What its task asks for next comes behind the release, and in another name where that may yet come late. */
    private CompletableFuture<@Nullable Void> forgottenAfter(CompletableFuture<@Nullable Void> released, Task by) {
        return released.whenComplete((nothing, failure) -> {
            if (failure != null && Line.unwrapped(failure) instanceof LockUnavailableException) {
                by.leaveOwner(owner);
            }
            by.forget(this);
        });
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
    abstract CompletableFuture<@Nullable Void> giveBack(int left, Caller caller, long deadline);

    /** Ends it with its client: whoever works under it is told. */
    final CompletableFuture<@Nullable Void> close() {
        if (!isHeld()) {
            return CompletableFuture.completedFuture(null);
        }
        lose(new LockLostException(key + ": the locks are closed", null));
        return giveBack(0, Caller.NONE, System.nanoTime() + scope.settings().release()).exceptionally(failure -> null);
    }

    /** Leaves it to this lease; one that was taken more than once stays as it is. */
    final CompletableFuture<@Nullable Void> detach(Duration lease) {
        return task == null && !isAdopted ? detachNow(lease) : turns.take(() -> detachNow(lease));
    }

    private CompletableFuture<@Nullable Void> detachNow(Duration lease) {
        if (isHeld() && holds > 1) {
            return CompletableFuture.failedFuture(new LockMisuseException(key + ": taken " + holds + " times, and not detached", null));
        }
        LockLostException lost = fate.release() ? null : fate.loss();
        if (lost != null) {
            return CompletableFuture.failedFuture(again(lost));
        }
        if (task != null) {
            task.leaveOwner(owner); // it stands on in this name, for whoever adopts it
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
