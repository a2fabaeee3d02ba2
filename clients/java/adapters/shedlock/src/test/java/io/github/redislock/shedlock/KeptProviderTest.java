package io.github.redislock.shedlock;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.junit.jupiter.api.Test;

/** The same, with locks that live as long as their process. */
class KeptProviderTest extends ProviderTest {
    @Override
    protected ExtensibleLockProvider getLockProvider() {
        return new RedisLockProvider(locks()).freedAfterDeath(Duration.ofSeconds(1));
    }

    /** Here the lock is held on. */
    @Override
    protected void doTestTimeout(Duration lockAtMostFor) throws InterruptedException {
        SimpleLock lock = getLockProvider().lock(lockConfig(LOCK_NAME1, lockAtMostFor, Duration.ZERO)).orElseThrow();
        Thread.sleep(2000);
        assertLocked(LOCK_NAME1);
        assertThat(getLockProvider().lock(lockConfig(LOCK_NAME1))).isEmpty();
        lock.unlock();
        assertUnlocked(LOCK_NAME1);
    }

    /** Here it can: it has not expired. */
    @Test
    @Override
    public void shouldNotBeAbleToExtendExpiredLock() {
        SimpleLock lock = getLockProvider().lock(lockConfig(LOCK_NAME1, Duration.ofMillis(2), Duration.ZERO)).orElseThrow();
        sleepFor(Duration.ofMillis(4));
        SimpleLock extended = lock.extend(Duration.ofSeconds(10), Duration.ZERO).orElseThrow();
        assertLocked(LOCK_NAME1);
        extended.unlock();
        assertUnlocked(LOCK_NAME1);
    }
}
