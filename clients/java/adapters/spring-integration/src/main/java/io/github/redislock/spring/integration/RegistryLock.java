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
    private interface Acquiring<X extends Exception> {
        boolean acquire() throws X;
    }

    private final String key;
    private final ThreadLock lock;
    /** Threads that hold it or wait for it, each as often as it does. */
    private final AtomicInteger users = new AtomicInteger();
    private volatile long usedAt;

    RegistryLock(RedisLock lock) {
        this.key = lock.key();
        this.lock = lock.asLock();
    }

    boolean isUsed() {
        return users.get() > 0;
    }

    /** Whether it was acquired once, longer ago than this, and is not in use. */
    boolean isUnusedFor(long millis) {
        return usedAt > 0 && !isUsed() && System.currentTimeMillis() - usedAt > millis;
    }

    void renew(@Nullable Duration lease) {
        if (lease == null) {
            lock.check();
        } else {
            lock.grant().extend(lease);
        }
    }

    private <X extends Exception> boolean acquire(Acquiring<X> acquiring) throws X {
        users.incrementAndGet();
        boolean isAcquired = false;
        try {
            isAcquired = acquiring.acquire();
            return isAcquired;
        } catch (LockException e) {
            throw new CannotAcquireLockException("Failed to lock mutex at " + key, e);
        } finally {
            if (isAcquired) {
                usedAt = System.currentTimeMillis();
            } else {
                users.decrementAndGet();
            }
        }
    }

    @Override
    public void lock() {
        acquire(() -> {
            lock.lock();
            return true;
        });
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        acquire(() -> {
            lock.lockInterruptibly();
            return true;
        });
    }

    @Override
    public boolean tryLock() {
        return acquire(lock::tryLock);
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return acquire(() -> lock.tryLock(time, unit));
    }

    @Override
    public void unlock() {
        if (lock.getHoldCount() == 0) {
            throw new IllegalStateException("You do not own lock at " + key);
        }
        try {
            lock.unlock();
        } catch (LockLostException e) {
            ConcurrentModificationException lost = new ConcurrentModificationException(
                    "Lock was released in the store due to expiration. "
                            + "The integrity of data protected by this lock may have been compromised.");
            lost.initCause(e);
            throw lost;
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
