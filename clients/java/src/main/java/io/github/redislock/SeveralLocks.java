package io.github.redislock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Several locks that are taken together or not at all: one after the other, in the order of their names, so that two
 * who take them never wait for each other. They have one owner, and one time to wait for all. Making it calls nothing;
 * it never changes.
 */
public final class SeveralLocks {
    /**
     * Work under several locks.
     *
     * @param <T> what it gives
     * @param <X> what it may throw
     */
    @FunctionalInterface
    public interface Work<T extends @Nullable Object, X extends Exception> {
        /** Does the work, and may look at its grants or hand on their tokens. */
        T run(Grants grants) throws X;
    }

    private final Locks locks;
    private final List<String> keys;
    private final UnaryOperator<RedisLock> terms;
    private final long wait;

    SeveralLocks(Locks locks, Collection<String> keys) {
        this(locks, List.copyOf(new TreeSet<>(keys)), lock -> lock, 0);
    }

    private SeveralLocks(Locks locks, List<String> keys, UnaryOperator<RedisLock> terms, long wait) {
        this.locks = locks;
        this.keys = keys;
        this.terms = terms;
        this.wait = wait;
    }

    /** Waits for so long at most, for all together. Without it, an acquire is now or not at all. */
    public SeveralLocks waiting(Duration time) {
        return new SeveralLocks(locks, keys, terms, RedisLock.nanos(time));
    }

    /** Waits for as long as it takes. */
    public SeveralLocks waitingForEver() {
        return new SeveralLocks(locks, keys, terms, Acquire.FOR_EVER);
    }

    /** Sets for each lock how it is held: {@code each(lock -> lock.lease(Duration.ofSeconds(5)))}. */
    public SeveralLocks each(UnaryOperator<RedisLock> set) {
        return new SeveralLocks(locks, keys, lock -> set.apply(terms.apply(lock)), wait);
    }

    /** Takes all, or none. An interrupt ends the wait, and leaves neither a hold nor a place in line. */
    public Grants acquire() throws InterruptedException {
        Taking taking = new Taking();
        try {
            while (taking.isLeft()) {
                taking.add(taking.next().acquire());
            }
            return taking.grants();
        } catch (Throwable e) { // of the terms too
            taking.rollBack(e);
            throw e;
        }
    }

    /** Takes all, or gives nothing when others have one of them. */
    public Optional<Grants> tryAcquire() throws InterruptedException {
        try {
            return Optional.of(acquire());
        } catch (LockBusyException e) {
            return Optional.empty();
        }
    }

    /** As {@link #acquire}, without a thread that waits. Cancelling the future ends the wait. */
    public CompletableFuture<Grants> acquireAsync() {
        CompletableFuture<Grants> told = new CompletableFuture<>();
        new Taking().goOn(told);
        return told;
    }

    /** Works under all of them; the loss of one interrupts the work: see {@link RedisLock#call}. */
    public <T extends @Nullable Object, X extends Exception> T call(Work<T, X> work) throws X, InterruptedException {
        return Guard.call(acquire(), work);
    }

    /** One call for all. */
    private final class Taking {
        private final long begun = System.nanoTime();
        private final Task task = locks.task();
        private final List<Grant> taken = new ArrayList<>();

        boolean isLeft() {
            return taken.size() < keys.size();
        }

        RedisLock next() {
            RedisLock lock = terms.apply(locks.lock(keys.get(taken.size())).by(task));
            return lock.waitingNanos(wait == Acquire.FOR_EVER ? wait : Math.max(0, wait - (System.nanoTime() - begun)));
        }

        void add(Grant grant) {
            taken.add(grant);
        }

        Grants grants() {
            return new Grants(taken);
        }

        void rollBack(Throwable why) {
            try {
                grants().close();
            } catch (LockException e) {
                why.addSuppressed(e);
            }
        }

        void goOn(CompletableFuture<Grants> told) {
            if (!isLeft()) {
                Grants all = grants();
                if (!told.complete(all)) {
                    all.releaseAsync();
                }
                return;
            }
            CompletableFuture<Grant> step;
            try {
                step = next().acquireAsync();
            } catch (Throwable e) { // of the terms
                fail(told, e);
                return;
            }
            told.whenComplete((grants, failure) -> step.cancel(false)); // which does nothing to one that is done
            step.whenComplete((grant, failure) -> {
                if (failure == null) {
                    add(grant);
                    goOn(told);
                } else {
                    fail(told, failure);
                }
            });
        }

        /** Tells it when what had been taken is given back. */
        private void fail(CompletableFuture<Grants> told, Throwable why) {
            grants().releaseAsync().whenComplete((nothing, fault) -> {
                if (fault != null) {
                    why.addSuppressed(Line.unwrapped(fault));
                }
                told.completeExceptionally(why);
            });
        }
    }
}
