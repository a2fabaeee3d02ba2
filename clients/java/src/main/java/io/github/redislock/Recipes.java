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
            try {
                lock.waitingForEver().call(work);
                pause = 0;
            } catch (LockLostException e) {
                pause = 0;
            } catch (LockUnavailableException e) {
                pause = Scope.nextPause(pause);
                TimeUnit.NANOSECONDS.sleep(Scope.jittered(pause));
            }
        }
    }

    static <T, X extends Exception> T once(RedisLock lock, RedisLock behind, Search<T, X> search, Work<T, X> work)
            throws X, InterruptedException {
        long begun = System.nanoTime();
        for (;;) {
            Optional<T> found = search.look();
            if (found.isPresent()) {
                return found.get();
            }
            Optional<Grant> mine = lock.waiting(Duration.ZERO).tryAcquire();
            if (mine.isPresent()) {
                return Guard.call(mine.get(), grant -> {
                    Optional<T> again = search.look();
                    return again.isPresent() ? again.get() : work.run(grant);
                });
            }
            long left = lock.waitNanos();
            if (left != Acquire.FOR_EVER) {
                left -= System.nanoTime() - begun;
            }
            if (left <= 0) {
                throw new LockBusyException(lock.key() + ": others do the work", null);
            }
            behind.waitingNanos(left).acquire().release();
        }
    }
}
