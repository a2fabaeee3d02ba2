package io.github.redislock;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock whose owner is a thread: that may lock it again, and unlocks it as often.
 *
 * <p>A loss is reported by {@link #check}, by {@link #unlock} and by locking again, with a {@link LockLostException}, until
 * it has been unlocked as often as it was locked. Errors of the server or the network are {@link LockException}s, too.
 *
 * <pre>{@code
 * ThreadLock lock = locks.get("lock:orders:42").asLock();
 * lock.lock();
 * try {
 *     pay(lock.grant().token());
 * } finally {
 *     lock.unlock();
 * }
 * }</pre>
 */
public final class ThreadLock implements Lock {
    private final Core core;
    private final String key;
    private final Lockable<Grant> mine;

    ThreadLock(RedisLock lock) {
        core = lock.core;
        key = lock.fullKey();
        mine = new Lockable<>(lock.wait) {
            @Override
            Grant acquire(long wait, boolean isInterruptible) throws InterruptedException {
                Task task = task();
                Grant before = task.grant(key);
                LockLostException lost = before == null ? null : before.loss();
                if (lost != null) {
                    throw (LockException) new LockLostException(String.valueOf(lost.getMessage())).initCause(lost);
                }
                Grant grant = lock.by(task).acquire(wait, isInterruptible);
                keep(task);
                return grant;
            }
        };
    }

    /** The task of this thread: it is one owner for as long as it holds a lock. */
    private Task task() {
        Task task = core.threads.get(Thread.currentThread());
        return task != null ? task : new Task(core);
    }

    private void keep(Task task) {
        if (task.keys().isEmpty()) {
            core.threads.remove(Thread.currentThread());
        } else {
            core.threads.put(Thread.currentThread(), task);
        }
    }

    /**
     * Locks, and waits for as long as {@link RedisLock#waiting} says. An interrupt does not end the wait, and is kept.
     *
     * @throws LockBusyException if the time is over
     */
    @Override
    public void lock() {
        mine.lock();
    }

    /**
     * As {@link #lock}, but an interrupt ends the wait.
     *
     * @throws LockBusyException if the time is over
     */
    @Override
    public void lockInterruptibly() throws InterruptedException {
        mine.lockInterruptibly();
    }

    /** Locks if that is possible now; else it is false. */
    @Override
    public boolean tryLock() {
        return mine.tryLock().isPresent();
    }

    /** Locks within this time; else it is false. */
    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return mine.tryLock(Duration.of(Math.max(0, time), unit.toChronoUnit())).isPresent();
    }

    /**
     * Gives the lock back, or one hold of it.
     *
     * @throws IllegalMonitorStateException if this thread does not hold it
     * @throws LockLostException if it was lost
     * @throws LockUnavailableException if the server has not answered for two reply timeouts: the session repeats it
     */
    @Override
    public void unlock() {
        Task task = task();
        try {
            grant(task).release();
        } finally {
            keep(task);
        }
    }

    /**
     * There are none: this lock is one of several processes.
     *
     * @throws UnsupportedOperationException always
     */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a distributed lock has no conditions");
    }

    /**
     * The grant of this thread, for its token and its checks; not for a release.
     *
     * @throws IllegalMonitorStateException if this thread does not hold it
     */
    public Grant grant() {
        return grant(task());
    }

    private Grant grant(Task task) {
        Grant grant = task.grant(key);
        if (grant == null) {
            throw new IllegalMonitorStateException("this thread does not hold " + key);
        }
        return grant;
    }

    /**
     * Asks the server whether this thread still has the lock, as {@link Grant#check} does.
     *
     * @throws IllegalMonitorStateException if this thread does not hold it
     * @throws LockLostException if it was lost
     * @throws LockUnavailableException if the server has not answered for two reply timeouts
     */
    public void check() {
        grant().check();
    }

    /** Whether this thread has it, as far as it knows. */
    public boolean isHeldByCurrentThread() {
        Grant grant = task().grant(key);
        return grant != null && grant.isHeld();
    }

    /** How often this thread has locked it and not unlocked it. */
    public int getHoldCount() {
        Grant grant = task().grant(key);
        return grant == null ? 0 : (int) grant.holds();
    }
}
