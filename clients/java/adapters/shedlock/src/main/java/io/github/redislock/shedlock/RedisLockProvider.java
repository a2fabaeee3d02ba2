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

/**
 * Locks of jobs, by the module redis-lock. The keys are those of ShedLock's own provider for Redis,
 * {@code job-lock:environment:name}: while one of the two holds a lock, the other gets none.
 */
public final class RedisLockProvider implements ExtensibleLockProvider {
    private static final Duration LEAST = Duration.ofMillis(1);

    private final Locks locks;
    private final String prefix;
    private final boolean isRenewed;

    /** In the environment {@code default}. */
    public RedisLockProvider(Locks locks) {
        this(locks, "default");
    }

    /** In an environment of this name: jobs of other environments do not count. */
    public RedisLockProvider(Locks locks, String environment) {
        this(Objects.requireNonNull(locks), "job-lock:" + Objects.requireNonNull(environment) + ":", false);
    }

    private RedisLockProvider(Locks locks, String prefix, boolean isRenewed) {
        this.locks = locks;
        this.prefix = prefix;
        this.isRenewed = isRenewed;
    }

    /**
     * The same, with locks that the server renews while this process lives. They are free a lease of the {@link Locks} after
     * its death, and {@code lockAtMostFor} has no meaning.
     */
    public RedisLockProvider renewed() {
        return new RedisLockProvider(locks, prefix, true);
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration job) {
        RedisLock lock = locks.get(prefix + job.getName());
        try {
            return (isRenewed ? lock : lock.fixed(atLeast(job.getLockAtMostFor()))).tryLock(Duration.ZERO)
                    .map(grant -> new JobLock(grant, job, isRenewed));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new LockException("interrupted before it had the lock " + job.getName(), e);
        }
    }

    static Duration atLeast(Duration time) {
        return time.compareTo(LEAST) < 0 ? LEAST : time;
    }
}
