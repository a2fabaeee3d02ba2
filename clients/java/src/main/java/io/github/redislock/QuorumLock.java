package io.github.redislock;

import java.time.Duration;
import java.util.function.Consumer;

/**
 * The lock of a key on several servers, and how it is acquired: always exclusive. It waits in the line of the first server
 * that answers.
 *
 * <pre>{@code
 * QuorumLock lock = quorum.get("lock:orders:42").waiting(Duration.ofSeconds(10)).onLost(why -> stop());
 * try (QuorumGrant grant = lock.lock()) {
 *     pay(grant.token());
 * }
 * }</pre>
 */
public final class QuorumLock extends Lockable<QuorumGrant> {
    private final Quorum quorum;
    private final RedisLock lock; // of the first server

    QuorumLock(Quorum quorum, RedisLock lock) {
        super(lock.wait);
        this.quorum = quorum;
        this.lock = lock;
    }

    /** As {@link RedisLock#waiting}. */
    public QuorumLock waiting(Duration time) {
        return new QuorumLock(quorum, lock.waiting(time));
    }

    /** As {@link RedisLock#fixed}. */
    public QuorumLock fixed(Duration lease) {
        return new QuorumLock(quorum, lock.fixed(lease));
    }

    /** As {@link RedisLock#atMost}. */
    public QuorumLock atMost(Duration time) {
        return new QuorumLock(quorum, lock.atMost(time));
    }

    /** As {@link RedisLock#onLost}. */
    public QuorumLock onLost(Consumer<LockLostException> notify) {
        return new QuorumLock(quorum, lock.onLost(notify));
    }

    @Override
    QuorumGrant acquire(long wait, boolean isInterruptible) throws InterruptedException {
        return Core.observed((took, error) -> quorum.observer.acquired(lock.fullKey(), took, error), Core.now(), () ->
                new QuorumAcquire(quorum, lock, wait, isInterruptible).run());
    }
}
