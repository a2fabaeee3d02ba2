package io.github.redislock;

import io.github.redislock.QuorumOutcome.Got;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * An ownership on several servers. This process renews it, every third of its lease, and counts its holds: the servers
 * know of one.
 */
final class QuorumHeld extends Ownership {
    private static final long SOONEST_AGAIN = TimeUnit.MILLISECONDS.toNanos(5);
    private static final long LATEST_AGAIN = TimeUnit.SECONDS.toNanos(1);
    private static final long SAME = 0;

    private final Quorum quorum;
    /** One renewal after the other: the last answer is that of the lease which the servers have. */
    private final Turns renewals = new Turns();
    private final boolean isFixed;
    private final long end; // of a grant that is held for so long at most; 0: none
    private volatile long lease;
    private volatile long until;
    private @Nullable Future<?> alarm;

    QuorumHeld(Quorum quorum, LockSpec spec, String owner, Got got, @Nullable Task task) {
        super(quorum, spec, owner, got.token(), 1, task);
        this.quorum = quorum;
        isFixed = spec.keepMs() == 0;
        end = spec.atMost() == null ? 0 : got.since() + spec.atMost().toNanos();
        lease = spec.lease().toNanos();
        until = Quorum.trustedUntil(got.since(), lease);
    }

    void begin() {
        alarm(due());
    }

    @Override
    long knownUntil() {
        return end != 0 && end - until < 0 ? end : until;
    }

    /** When its lease is to begin anew; where it is not, its end. */
    private long due() {
        boolean isLast = isFixed || end != 0 && until + 2 * Quorum.drift(lease) - end >= 0;
        return isLast ? knownUntil() : until - lease / 3 * 2;
    }

    private synchronized void alarm(long at) {
        if (alarm != null) {
            alarm.cancel(false);
        }
        if (isHeld()) {
            alarm = quorum.after(Math.max(0, at - System.nanoTime()), this::ring);
        }
    }

    private void ring() {
        long now = System.nanoTime();
        if (!isHeld()) {
            return;
        }
        if (knownUntil() - now <= 0) {
            lost(new IOException("its time was over"));
            return;
        }
        if (due() - now > 0) {
            alarm(due()); // it has another lease meanwhile
            return;
        }
        alarm(knownUntil());
        renew(SAME, quorum.settings().reply() / 2).whenComplete((nothing, failure) -> {
            if (failure != null) {
                long left = knownUntil() - System.nanoTime();
                long pause = Math.min(LATEST_AGAIN, Math.max(SOONEST_AGAIN, left / 10));
                quorum.after(Math.min(pause, Math.max(0, left)), this::ring);
            }
        });
    }

    /** Begins a lease of this length, or of the one that it has by then. */
    private CompletableFuture<@Nullable Void> renew(long asked, long time) {
        long begun = System.nanoTime();
        return renewals.take(() -> {
            CompletableFuture<@Nullable Void> ended = ended();
            if (ended != null) {
                return ended;
            }
            long now = System.nanoTime();
            long wanted = asked == SAME ? lease : asked;
            long most = end == 0 ? wanted : Math.min(wanted, Math.max(TimeUnit.MILLISECONDS.toNanos(1), end - now));
            mayHave(Quorum.trustedUntil(now, most)); // until an answer tells of more
            return losing(quorum.renew(key(), owner(), token(), most, Math.max(0, time - (now - begun)))
                    .thenApply(start -> {
                        lease = wanted;
                        until = Quorum.trustedUntil(start, most);
                        alarm(due());
                        LockLostException lost = loss();
                        if (lost != null) {
                            throw again(lost); // while it was asked for
                        }
                        return null;
                    }));
        });
    }

    /** The servers may have a lease that ends then: where that is sooner, it is trusted for no longer. */
    private void mayHave(long sooner) {
        if (sooner - until < 0) {
            until = sooner;
            alarm(due());
        }
    }

    /** What is told where it has ended; null where it has not. */
    private @Nullable CompletableFuture<@Nullable Void> ended() {
        LockLostException lost = loss();
        if (lost != null) {
            return CompletableFuture.failedFuture(again(lost));
        }
        return isHeld() ? null : CompletableFuture.failedFuture(new LockMisuseException(key() + ": released already", null));
    }

    private CompletableFuture<@Nullable Void> losing(CompletableFuture<@Nullable Void> asked) {
        return asked.whenComplete((nothing, failure) -> {
            if (failure != null && Line.unwrapped(failure) instanceof LockLostException loss) {
                lost(loss);
            }
        });
    }

    /** What a minority may have still is not waited for by others. */
    private void lost(Throwable why) {
        if (isHeld()) {
            lose(why);
            quorum.giveBack(key(), owner());
        }
    }

    @Override
    void over() {
        synchronized (this) {
            if (alarm != null) {
                alarm.cancel(false);
            }
        }
        quorum.held.remove(this);
    }

    @Override
    CompletableFuture<?> enter(LockSpec spec, int wanted, long deadline) {
        return CompletableFuture.completedFuture(null);
    }

    @Override
    CompletableFuture<@Nullable Void> giveBack(int left, Caller caller, long deadline) {
        if (left > 0) {
            return CompletableFuture.completedFuture(null);
        }
        QuorumRound round = quorum.release(key(), owner());
        return quorum.soonest(round.decided(), Math.max(0, deadline - System.nanoTime())).thenApply(nothing -> {
            LockException error = round.error();
            if (error != null) {
                throw error;
            }
            if (!round.isAnswered()) {
                throw round.tooFew();
            }
            return null;
        });
    }

    @Override
    CompletableFuture<@Nullable Void> leave(Duration lease) {
        return quorum.renew(key(), owner(), token(), Math.max(1_000_000, lease.toNanos()), quorum.settings().release())
                .thenApply(start -> null);
    }

    /** By a renewal, which a fixed lease does not get. */
    @Override
    CompletableFuture<@Nullable Void> check() {
        long reply = quorum.settings().reply();
        if (!isFixed) {
            return renew(SAME, reply);
        }
        CompletableFuture<@Nullable Void> ended = ended();
        return ended != null ? ended : losing(quorum.ask(key(), null, Words.of("LOCK.FENCE", key(), token()), lease, reply)
                .thenApply(start -> null));
    }

    @Override
    CompletableFuture<@Nullable Void> extend(Duration lease) {
        return renew(Math.max(1, lease.toNanos()), quorum.settings().reply());
    }

    @Override
    CompletableFuture<@Nullable Void> share() {
        return CompletableFuture.failedFuture(new LockMisuseException(key() + ": on several servers it is not shared", null));
    }
}
