package io.github.redislock.spring.boot;

import io.github.redislock.Grant;
import io.github.redislock.LockRefusedException;
import io.github.redislock.LockUnavailableException;
import io.github.redislock.Locks;
import io.github.redislock.RedisLock;
import java.time.Duration;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.springframework.beans.factory.SmartInitializingSingleton;

/** Finds out whether locks can be acquired, by acquiring one that all instances share. */
final class LockProbe implements SmartInitializingSingleton {
    private static final Log LOG = LogFactory.getLog(LockProbe.class);
    /** A JVM that starts on half a CPU takes seconds for its first connection. */
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private final RedisLock lock;
    private final Duration replyTimeout;

    LockProbe(Locks locks, RedisLockProperties properties) {
        lock = locks.get(properties.probeKey()).shared();
        replyTimeout = properties.replyTimeout();
    }

    /** Acquires and releases it; a lock that others hold is an answer, too. */
    void check() {
        lock.tryLock().ifPresent(Grant::close);
    }

    /** Connects, so that the first request need not wait for that. An application starts without Redis, too. */
    @Override
    public void afterSingletonsInstantiated() {
        Thread thread = new Thread(() -> {
            try {
                lock.waiting(PATIENCE).lock().close();
            } catch (LockRefusedException | LockUnavailableException e) {
                LOG.warn("No lock can be acquired now: " + e.getMessage());
            } catch (RuntimeException e) {
                LOG.debug("The probe has ended", e); // others hold it, or the application has ended
            }
        }, "redis-lock-start");
        thread.setDaemon(true);
        thread.start();
        try {
            thread.join(replyTimeout.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
