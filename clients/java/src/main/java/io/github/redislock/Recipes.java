package io.github.redislock;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** What is built from locks: a leader, and work that is done once. */
final class Recipes {
    private Recipes() {}

    static <X extends Exception> void lead(RedisLock lock, Work<? extends @Nullable Object, X> work)
            throws X, InterruptedException {
        long pause = 0;
        for (;;) {
            Term<X> term = new Term<>(work);
            try {
                lock.waitingForEver().call(term);
                pause = 0;
            } catch (LockLostException | LockUnavailableException e) {
                if (term.hasFailedBy(e)) {
                    throw e;
                }
                pause = term.hasBegun && e instanceof LockLostException ? 0 : Scope.nextPause(pause);
                TimeUnit.NANOSECONDS.sleep(Scope.jittered(pause));
            }
        }
    }

    /** The work of a leader, once: what it throws by itself is told from what becomes of its lock. */
    private static final class Term<X extends Exception> implements Work<@Nullable Object, X> {
        private final Work<? extends @Nullable Object, X> work;
        private boolean hasBegun;
        private @Nullable Throwable failure;

        Term(Work<? extends @Nullable Object, X> work) {
            this.work = work;
        }

        @Override
        public @Nullable Object run(Grant grant) throws X {
            hasBegun = true;
            try {
                return work.run(grant);
            } catch (Throwable e) {
                failure = grant.isLossOf(e) ? null : e;
                throw e;
            }
        }

        boolean hasFailedBy(Throwable thrown) {
            return failure == thrown;
        }
    }

    static <T, X extends Exception> T once(RedisLock lock, RedisLock behind, Search<T, X> search, Work<T, X> work)
            throws X, InterruptedException {
        long begun = System.nanoTime();
        Optional<T> found = search.look();
        if (found.isPresent()) {
            return found.get();
        }
        Grant mine;
        try {
            mine = lock.waitingNanos(0).acquire();
        } catch (LockBusyException | LockUnavailableException e) {
            long left = left(lock, begun);
            if (left <= 0) {
                throw e;
            }
            behind.waitingNanos(left).acquire().release();
            found = search.look();
            if (found.isPresent()) {
                return found.get();
            }
            // In line: those who share it for another end may stay.
            mine = lock.waitingNanos(Math.max(0, left(lock, begun))).acquire();
        }
        return Guard.call(mine, grant -> {
            Optional<T> again = search.look();
            return again.isPresent() ? again.get() : work.run(grant);
        });
    }

    private static long left(RedisLock lock, long begun) {
        long wait = lock.waitNanos();
        return wait == Acquire.FOR_EVER ? wait : wait - (System.nanoTime() - begun);
    }
}
