package io.github.redislock;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.jspecify.annotations.Nullable;

/**
 * A lock whose owner is a thread: that may lock it again, and unlocks it as often.
 *
 * <p>A loss is reported by {@link #check}, by {@link #unlock} and by locking again, with a {@link LockLostException}, until
 * it has been unlocked as often as it was locked. Errors of the server or the network are {@link LockException}s, too.
 */
public final class ThreadLock implements Lock {
    private final RedisLock lock;
    private final String key;
    private final Threads threads;

    ThreadLock(RedisLock lock) {
        this.lock = lock;
        key = lock.key();
        threads = lock.core.threads;
    }

    @Override
    public void lock() {
        acquire(() -> lock.by(threads.mine().task).lock());
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        acquire(() -> lock.by(threads.mine().task).lockInterruptibly());
    }

    /** Locks if that is possible now. */
    @Override
    public boolean tryLock() {
        return acquire(() -> lock.by(threads.mine().task).tryLock().orElse(null));
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return tryLock(Duration.of(Math.max(0, time), unit.toChronoUnit()));
    }

    /** As {@link #tryLock(long, TimeUnit)}. */
    public boolean tryLock(Duration time) throws InterruptedException {
        return acquire(() -> lock.by(threads.mine().task).tryLock(time).orElse(null));
    }

    private <X extends Exception> boolean acquire(Acquiring<X> acquiring) throws X {
        try {
            Threads.Held before = threads.held(key);
            LockLostException lost = before == null ? null : before.grant.loss();
            if (lost != null) {
                throw new LockLostException(lost.getMessage(), lost);
            }
            Grant grant = acquiring.acquire();
            if (grant != null) {
                threads.mine().held.computeIfAbsent(key, it -> new Threads.Held(grant)).count++;
            }
            return grant != null;
        } finally {
            threads.tidy();
        }
    }

    private interface Acquiring<X extends Exception> {
        @Nullable Grant acquire() throws X;
    }

    /** @throws IllegalMonitorStateException if this thread does not hold it */
    @Override
    public void unlock() {
        Threads.Held held = mine();
        if (--held.count == 0) {
            threads.mine().held.remove(key);
        }
        try {
            held.grant.release();
        } finally {
            threads.tidy();
        }
    }

    /** There are none: this lock is one of several processes. */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a distributed lock has no conditions");
    }

    /** The grant of this thread, for its token and its checks; not for a release. */
    public Grant grant() {
        return mine().grant;
    }

    /** Asks the server whether this thread still has the lock, and throws {@link LockLostException} if it has not. */
    public void check() {
        mine().grant.check();
    }

    /** Whether this thread has it, as far as it knows. */
    public boolean isHeldByCurrentThread() {
        Threads.Held held = threads.held(key);
        return held != null && held.grant.isHeld();
    }

    /** How often this thread has locked it and not unlocked it. */
    public int getHoldCount() {
        Threads.Held held = threads.held(key);
        return held == null ? 0 : held.count;
    }

    private Threads.Held mine() {
        Threads.Held held = threads.held(key);
        if (held == null) {
            throw new IllegalMonitorStateException("this thread does not hold " + key);
        }
        return held;
    }
}
