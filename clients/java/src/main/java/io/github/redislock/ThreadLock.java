package io.github.redislock;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock of threads, of several processes: a thread that has it may take it again, and unlocks it as often.
 *
 * <p>A lock that was lost is told by {@link #check}, {@link #unlock} and by locking again, with a
 * {@link LockLostException}, until it has been unlocked as often as it was locked. An error of the server or the network
 * is a {@link LockException} too.
 */
public final class ThreadLock implements Lock {
    /** Which of a thread's holds are this lock's: all, or those of one side of a read and write lock. */
    enum Counts { ALL, READERS, WRITERS }

    private final Scope scope;
    private final Threads threads;
    private final LockSpec spec;
    private final Counts counts;

    ThreadLock(Scope scope, Threads threads, LockSpec spec, Counts counts) {
        this.scope = scope;
        this.threads = threads;
        this.spec = spec;
        this.counts = counts;
    }

    @Override
    public void lock() {
        try {
            acquire(Acquire.FOR_EVER, false);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // only where it may be interrupted
        }
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        acquire(Acquire.FOR_EVER, true);
    }

    /** Takes the lock now or not at all, in a second at most. */
    @Override
    public boolean tryLock() {
        try {
            return tryAcquire(0, false);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return tryAcquire(Math.max(0, unit.toNanos(time)), true);
    }

    /** As {@link #tryLock(long, TimeUnit)}. */
    public boolean tryLock(Duration time) throws InterruptedException {
        return tryAcquire(RedisLock.nanos(time), true);
    }

    private boolean tryAcquire(long wait, boolean isInterruptible) throws InterruptedException {
        try {
            acquire(wait, isInterruptible);
            return true;
        } catch (LockBusyException e) {
            return false;
        }
    }

    private void acquire(long wait, boolean isInterruptible) throws InterruptedException {
        if (isInterruptible && Thread.interrupted()) {
            throw new InterruptedException();
        }
        try {
            Ownership held = threads.mine().acquire(spec, wait, Caller.here()).get(isInterruptible);
            if (counts == Counts.READERS) {
                held.readers++;
            }
        } finally {
            threads.tidy();
        }
    }

    @Override
    public void unlock() {
        Ownership held = mine();
        if (counts == Counts.READERS) {
            held.readers--;
        }
        try {
            Caller caller = Caller.here();
            Attempt.await(caller, held.release(caller));
            if (counts != Counts.ALL && held.isHeld() && held.isExclusive() && held.readers == 1 && held.holds() == 1) {
                Attempt.await(held.downgrade()); // the writer has become a reader
            }
        } finally {
            threads.tidy();
        }
    }

    /** There are none: this lock is one of several processes. */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a lock of several processes has no conditions");
    }

    /** The fencing token: later owners of the lock have higher ones. */
    public long token() {
        return mine().token();
    }

    /** Asks the server whether this thread still has the lock, and throws {@link LockLostException} when it has not. */
    public void check() {
        Attempt.await(mine().check());
    }

    /** Gives this thread's lock this lease, which begins now. */
    public void extend(Duration lease) {
        Attempt.await(mine().extend(lease));
    }

    /** For how long this thread has the lock for certain, if nothing more is heard of it. */
    public Duration remaining() {
        return mine().remaining();
    }

    /** Whether this thread has it, as far as it has been told. */
    public boolean isHeldByCurrentThread() {
        return getHoldCount() > 0 && mine().isHeld();
    }

    /** How often this thread has locked it and not unlocked it. */
    public int getHoldCount() {
        Ownership held = threads.held(spec.key());
        return held == null ? 0 : count(held);
    }

    private int count(Ownership held) {
        return switch (counts) {
            case ALL -> held.holds();
            case READERS -> held.readers;
            case WRITERS -> held.holds() - held.readers;
        };
    }

    /** Whether anybody has it. Asks the server. */
    public boolean isLocked() {
        return scope.look().info(spec.key()) != null;
    }

    /** Takes it away from whoever has it; the next in line gets it. Tells whether anybody had it. */
    public boolean forceUnlock() {
        return scope.look().delete(spec.key());
    }

    private Ownership mine() {
        Ownership held = threads.held(spec.key());
        if (held == null || count(held) == 0) {
            throw new IllegalMonitorStateException("this thread does not hold " + spec.key());
        }
        return held;
    }
}
