package io.github.redislock.spring.boot;

import io.github.redislock.Locks;
import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;

/** Asks the server whether a lock is held: that takes the module, the right to it, and an answer in time. */
final class RedisLockHealthIndicator extends AbstractHealthIndicator {
    private final Locks locks;
    private final String probeKey;

    RedisLockHealthIndicator(Locks locks, String probeKey) {
        super("The locks cannot be reached");
        this.locks = locks;
        this.probeKey = probeKey;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) {
        health.withDetail("held", locks.held());
        locks.lock(probeKey).asLock().isLocked();
        health.up();
    }
}
