package io.github.redislock;

import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * The lock of a key on several servers, and how it is acquired: always exclusive. It waits in the line of the first server
 * that answers.
 */
public final class QuorumLock extends Lockable<QuorumGrant> {
    private final Quorum quorum;
    private final String key;
    private final Terms terms;
    private final long wait;

    QuorumLock(Quorum quorum, String key) {
        this(quorum, key, new Terms(List.of(), quorum.settings.lease(), false, 0, null), FOREVER);
    }

    private QuorumLock(Quorum quorum, String key, Terms terms, long wait) {
        this.quorum = quorum;
        this.key = key;
        this.terms = terms;
        this.wait = wait;
    }

    private QuorumLock with(long lease, boolean isFixed, long atMost, @Nullable Consumer<LockLostException> onLost) {
        return new QuorumLock(quorum, key, new Terms(List.of(), lease, isFixed, atMost, onLost), wait);
    }

    /** As {@link RedisLock#waiting}. */
    public QuorumLock waiting(Duration time) {
        return new QuorumLock(quorum, key, terms, nanos(time));
    }

    /** As {@link RedisLock#fixed}. */
    public QuorumLock fixed(Duration lease) {
        return with(Grant.lease(lease), true, terms.atMost(), terms.onLost());
    }

    /** As {@link RedisLock#atMost}. */
    public QuorumLock atMost(Duration time) {
        return with(terms.lease(), terms.isFixed(), Grant.lease(time), terms.onLost());
    }

    /** As {@link RedisLock#onLost}. */
    public QuorumLock onLost(Consumer<LockLostException> notify) {
        return with(terms.lease(), terms.isFixed(), terms.atMost(), notify);
    }

    @Override
    long waits() {
        return wait;
    }

    @Override
    QuorumGrant acquire(long wait, boolean isInterruptible) throws InterruptedException {
        long begun = Core.now();
        String full = quorum.settings.prefix() + key;
        Throwable error = null;
        try {
            return new QuorumAcquire(new Ballot(quorum, full, terms, isInterruptible), wait).run();
        } catch (InterruptedException | RuntimeException e) {
            error = e;
            throw e;
        } finally {
            quorum.settings.observer().acquired(full, Duration.ofNanos(Core.now() - begun), error);
        }
    }
}
