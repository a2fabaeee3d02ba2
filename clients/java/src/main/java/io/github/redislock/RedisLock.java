package io.github.redislock;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * The name of a lock, how it is wanted, and for how long. Making one calls nothing; it never changes, and any number of
 * threads may use it. Each method that sets something gives a new one.
 *
 * <p>Each acquire is an owner of its own, so that a grant may be handed on to other threads. An owner that may take a
 * lock again is a {@link Task}, or a thread: {@link #asLock}.
 */
public final class RedisLock {
    private final Scope scope;
    private final Threads threads;
    private final LockSpec spec;
    private final long wait;
    private final @Nullable String owner;
    private final @Nullable Task task;

    RedisLock(Scope scope, Threads threads, String key, List<String> mode) {
        this(scope, threads, new LockSpec(key, mode, scope.settings().lease(), scope.settings().keep().toMillis(), null, 0),
                0, null, null);
    }

    private RedisLock(Scope scope, Threads threads, LockSpec spec, long wait, @Nullable String owner, @Nullable Task task) {
        scope.check(spec, owner);
        this.scope = scope;
        this.threads = threads;
        this.spec = spec;
        this.wait = wait;
        this.owner = owner;
        this.task = task;
    }

    private RedisLock with(LockSpec changed) {
        return new RedisLock(scope, threads, changed, wait, owner, task);
    }

    private RedisLock with(Duration lease, long keepMs, @Nullable Duration atMost, int replicas) {
        return with(new LockSpec(spec.key(), spec.mode(), lease, keepMs, atMost, replicas));
    }

    /** The name of the lock. */
    public String key() {
        return spec.key();
    }

    /** Waits in line for so long at most. Without it, an acquire is now or not at all. */
    public RedisLock waiting(Duration time) {
        return waitingNanos(nanos(time));
    }

    /** Waits in line for as long as it takes. */
    public RedisLock waitingForEver() {
        return waitingNanos(Acquire.FOR_EVER);
    }

    RedisLock waitingNanos(long nanos) {
        return new RedisLock(scope, threads, spec, nanos, owner, task);
    }

    long waitNanos() {
        return wait;
    }

    /** How long others wait when this process has died: 1 s or more, by default 10 s. */
    public RedisLock lease(Duration time) {
        return with(atLeast(1, time), spec.keepMs(), spec.atMost(), spec.replicas());
    }

    /** How long this process may stand still and keep its locks: 1 s or more, by default 30 s. */
    public RedisLock keep(Duration time) {
        return with(spec.lease(), atLeast(1000, time).toMillis(), spec.atMost(), spec.replicas());
    }

    /** Held for so long and no longer: nobody renews it. */
    public RedisLock fixed(Duration time) {
        return with(atLeast(1, time), 0, null, spec.replicas());
    }

    /** Kept, but for so long at most. */
    public RedisLock atMost(Duration time) {
        return with(spec.lease(), spec.keepMs(), atLeast(1, time), spec.replicas());
    }

    /** Granted only when so many replicas have it. Not for a thread's lock. */
    public RedisLock replicas(int number) {
        return with(spec.lease(), spec.keepMs(), spec.atMost(), number);
    }

    /**
     * Taken in this name, of 1 to 256 bytes, which nobody else uses: who takes it again in this name has one hold more of
     * the same grant. Not for a permit, which has an owner of its own.
     */
    public RedisLock owner(String name) {
        return new RedisLock(scope, threads, spec, wait, name, null);
    }

    /** Taken by this task. A permit is for itself all the same. */
    public RedisLock by(Task owner) {
        return new RedisLock(scope, threads, spec, wait, null, owner);
    }

    /** Takes the lock. An interrupt ends the wait, and leaves neither a hold nor a place in line. */
    public Grant acquire() throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return new Grant(start(Caller.here()).get(true));
    }

    /** Takes the lock, or gives nothing when others have it. */
    public Optional<Grant> tryAcquire() throws InterruptedException {
        try {
            return Optional.of(acquire());
        } catch (LockBusyException e) {
            return Optional.empty();
        }
    }

    /**
     * Takes the lock, without a thread that waits. Cancelling the future ends the wait. What depends on it is run by
     * threads of this client.
     */
    public CompletableFuture<Grant> acquireAsync() {
        Attempt attempt = start(Caller.NONE);
        CompletableFuture<Grant> told = new CompletableFuture<>();
        attempt.result().whenComplete((held, failure) -> scope.execute(() -> {
            if (failure != null) {
                told.completeExceptionally(Line.unwrapped(failure));
            } else if (!told.complete(new Grant(held))) {
                held.release();
            }
        }));
        told.whenComplete((grant, failure) -> attempt.end().accept(new CancellationException())); // of nothing that is done
        return told;
    }

    /** Takes over a grant that was taken elsewhere; its lease, and how it is kept, are this lock's from now on. */
    public Grant adopt(String owner, long token) {
        return new Grant(scope.adopt(adapted(), owner, token));
    }

    /**
     * Works under the lock, and interrupts the work when the lock is lost. What the work throws is thrown, with what
     * was wrong with the lock as a suppressed exception; a loss alone is thrown as {@link LockLostException}, and so is
     * the work's InterruptedException that came of it.
     */
    public <T extends @Nullable Object, X extends Exception> T call(Work<T, X> work) throws X, InterruptedException {
        return Guard.call(acquire(), work);
    }

    /**
     * Leads: waits for the lock for as long as it takes, works while it has it, and then from the start: when the work
     * has ended, and when the lock was lost, which interrupts the work. It ends by an interrupt of this thread, by what
     * the work throws, and by an error of the lock that is neither a loss nor one that passes; after
     * {@link Locks#close} that is a {@link LockMisuseException}. So the work has to let an InterruptedException out.
     */
    public <X extends Exception> void lead(Work<? extends @Nullable Object, X> work) throws X, InterruptedException {
        Recipes.lead(this, work);
    }

    /**
     * Does a piece of work once, however many ask for it at a time. The search says whether its result is there; where
     * it is not, one does the work under the lock, and all others wait until it has ended, for as long as this lock
     * waits, and look again (one after the other, on several servers that decide together). For a lock that is taken alone.
     */
    public <T, X extends Exception> T once(Search<T, X> search, Work<T, X> work) throws X, InterruptedException {
        if (!spec.isExclusive()) {
            throw new LockMisuseException(key() + ": work that is done once has its lock alone", null);
        }
        RedisLock behind = !scope.canShare() ? this
                : with(new LockSpec(spec.key(), List.of("SHARED"), spec.lease(), spec.keepMs(), spec.atMost(), 0));
        return Recipes.once(this, behind, search, work);
    }

    /** The same for java.util.concurrent: taken by threads, each of which is an owner and may take it again. */
    public ThreadLock asLock() {
        return new ThreadLock(scope, threads, threadSpec(), ThreadLock.Counts.ALL);
    }

    LockSpec threadSpec() {
        if (spec.isPermit() || spec.replicas() > 0) {
            throw new LockMisuseException("a permit, or a lock with replicas, is no thread's lock", null);
        }
        return adapted();
    }

    /** A lease that is not shorter than the whole time needs no renewal. */
    private LockSpec adapted() {
        Duration most = spec.atMost();
        return most == null || most.compareTo(spec.lease()) > 0 ? spec
                : new LockSpec(spec.key(), spec.mode(), most, 0, most, spec.replicas());
    }

    private Attempt start(Caller caller) {
        Task by = task;
        if (by != null && !spec.isPermit()) {
            return by.acquire(adapted(), wait, caller);
        }
        return scope.take(adapted(), owner, null, wait, caller);
    }

    static long nanos(Duration time) {
        if (time.isNegative()) {
            throw new LockMisuseException("a negative time: " + time, null);
        }
        return time.compareTo(Duration.ofDays(3650)) > 0 ? Acquire.FOR_EVER : time.toNanos();
    }

    static Duration atLeast(long millis, Duration time) {
        if (time.toMillis() < millis) {
            throw new LockMisuseException("shorter than " + millis + " ms: " + time, null);
        }
        return time;
    }
}
