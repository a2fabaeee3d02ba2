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
    private final boolean isKept;

    JobLock(Grant grant, LockConfiguration job, boolean isKept) {
        super(job);
        this.grant = grant;
        this.isKept = isKept;
    }

    /**
     * What is left of lockAtLeastFor stays, also when this process ends before. What fails is told by the log alone:
     * ShedLock unlocks in a finally, where an exception would take the place of the job's own.
     */
    @Override
    protected void doUnlock() {
        Duration rest = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
        try {
            if (rest.isNegative() || rest.isZero()) {
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
                    + " could not be given back: it stays for a while", e);
        }
    }

    @Override
    protected Optional<SimpleLock> doExtend(LockConfiguration next) {
        try {
            if (isKept) {
                grant.check();
            } else {
                grant.extend(RedisLockProvider.atLeast(Duration.ofMillis(1), next.getLockAtMostFor()));
            }
            return Optional.of(new JobLock(grant, next, isKept));
        } catch (LockLostException e) {
            return Optional.empty();
        }
    }
}
