package io.github.redislock.spring.integration;

import io.github.redislock.LockException;
import io.github.redislock.LockLostException;
import io.github.redislock.RedisLock;
import io.github.redislock.ThreadLock;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import org.jspecify.annotations.Nullable;
import org.springframework.dao.CannotAcquireLockException;

/** A lock with the errors that Spring Integration expects. */
final class RegistryLock implements Lock {
    private interface Taking {
        boolean take() throws InterruptedException;
    }

    private final String key;
    private final ThreadLock lock;
    /** Threads that have it or ask for it, each as often as it does. */
    private final AtomicInteger users = new AtomicInteger();
    private volatile long usedAt;

    RegistryLock(RedisLock lock) {
        this.key = lock.key();
        this.lock = lock.asLock();
    }

    boolean isUsed() {
        return users.get() > 0;
    }

    /** Whether it was taken once, longer ago than this, and is not in use. */
    boolean isUnusedFor(long millis) {
        return usedAt > 0 && !isUsed() && System.currentTimeMillis() - usedAt > millis;
    }

    void renew(@Nullable Duration lease) {
        if (lease == null) {
            lock.check();
        } else {
            lock.extend(lease);
        }
    }

    private boolean take(Taking taking) throws InterruptedException {
        users.incrementAndGet();
        boolean isTaken = false;
        try {
            isTaken = taking.take();
            return isTaken;
        } catch (LockException e) {
            throw new CannotAcquireLockException("Failed to lock mutex at " + key, e);
        } finally {
            if (isTaken) {
                usedAt = System.currentTimeMillis();
            } else {
                users.decrementAndGet();
            }
        }
    }

    private boolean takeUninterrupted(Taking taking) {
        try {
            return take(taking);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // nothing of this is interrupted
        }
    }

    @Override
    public void lock() {
        takeUninterrupted(() -> {
            lock.lock();
            return true;
        });
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        take(() -> {
            lock.lockInterruptibly();
            return true;
        });
    }

    @Override
    public boolean tryLock() {
        return takeUninterrupted(lock::tryLock);
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return take(() -> lock.tryLock(time, unit));
    }

    @Override
    public void unlock() {
        if (lock.getHoldCount() == 0) {
            throw new IllegalStateException("You do not own lock at " + key);
        }
        try {
            lock.unlock();
        } catch (LockLostException e) {
            ConcurrentModificationException told = new ConcurrentModificationException(
                    "Lock was released in the store due to expiration. "
                            + "The integrity of data protected by this lock may have been compromised.");
            told.initCause(e);
            throw told;
        } finally {
            users.decrementAndGet();
        }
    }

    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("Conditions are not supported");
    }

    @Override
    public String toString() {
        return "RedisLock [lockKey=" + key + "]";
    }
}
