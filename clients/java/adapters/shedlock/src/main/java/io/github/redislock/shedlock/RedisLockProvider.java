package io.github.redislock.shedlock;

import io.github.redislock.Locks;
import io.github.redislock.RedisLock;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.LockException;
import org.jspecify.annotations.Nullable;

/**
 * Locks of jobs, by the module redis-lock. The keys are those of ShedLock's own provider for Redis,
 * {@code job-lock:environment:name}: where it holds a lock, this provider gets none, and the other way round.
 */
public final class RedisLockProvider implements ExtensibleLockProvider {
    private final Locks locks;
    private final String prefix;
    private final @Nullable Duration lease;

    /** In the environment {@code default}. */
    public RedisLockProvider(Locks locks) {
        this(locks, "default");
    }

    /** In an environment of this name: jobs of other environments do not count. */
    public RedisLockProvider(Locks locks, String environment) {
        this(Objects.requireNonNull(locks), "job-lock:" + Objects.requireNonNull(environment) + ":", null);
    }

    private RedisLockProvider(Locks locks, String prefix, @Nullable Duration lease) {
        this.locks = locks;
        this.prefix = prefix;
        this.lease = lease;
    }

    /**
     * The same, with locks that are held for as long as the process lives, and come free so long after its death:
     * {@code lockAtMostFor} has no meaning there. 1 s or more.
     */
    public RedisLockProvider freedAfterDeath(Duration time) {
        return new RedisLockProvider(locks, prefix, Objects.requireNonNull(time));
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration job) {
        RedisLock lock = locks.lock(prefix + job.getName());
        try {
            return (lease == null ? lock.fixed(atLeast(Duration.ofMillis(1), job.getLockAtMostFor()))
                    : lock.lease(atLeast(lease, job.getLockAtLeastFor())))
                    .tryAcquire().map(grant -> new JobLock(grant, job, lease != null));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LockException("interrupted before it had the lock " + job.getName(), e);
        }
    }

    static Duration atLeast(Duration least, Duration time) {
        return time.compareTo(least) < 0 ? least : time;
    }
}
