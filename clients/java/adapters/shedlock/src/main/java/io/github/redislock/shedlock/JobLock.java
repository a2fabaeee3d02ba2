package io.github.redislock.shedlock;

import io.github.redislock.Grant;
import io.github.redislock.LockException;
import io.github.redislock.LockLostException;
import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;

/** The lock of one run of a job. */
final class JobLock extends AbstractSimpleLock {
    private static final System.Logger LOG = System.getLogger("io.github.redislock.shedlock");

    private final Grant grant;
    private final boolean isRenewed;

    JobLock(Grant grant, LockConfiguration job, boolean isRenewed) {
        super(job);
        this.grant = grant;
        this.isRenewed = isRenewed;
    }

    /**
     * Leaves the lock for the rest of lockAtLeastFor, also if this process ends meanwhile. Errors are only logged: ShedLock
     * unlocks in a finally, where an exception would replace the job's own.
     */
    @Override
    protected void doUnlock() {
        Duration rest = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
        try {
            if (rest.toMillis() < 1) {
                grant.release();
            } else {
                grant.detach(rest);
            }
        } catch (LockLostException e) {
            LOG.log(System.Logger.Level.WARNING,
                    "The job {0} had lost its lock before it ended: it may have run twice ({1})",
                    lockConfiguration.getName(), e.getMessage());
        } catch (LockException e) {
            LOG.log(System.Logger.Level.WARNING, "The lock of the job " + lockConfiguration.getName()
                    + " could not be released: it ends with its lease", e);
        }
    }

    @Override
    protected Optional<SimpleLock> doExtend(LockConfiguration next) {
        try {
            if (isRenewed) {
                grant.check();
            } else {
                grant.extend(RedisLockProvider.atLeast(next.getLockAtMostFor()));
            }
            return Optional.of(new JobLock(grant, next, isRenewed));
        } catch (LockLostException e) {
            return Optional.empty();
        }
    }
}
