package io.github.redislock;

import io.github.redislock.Line.Answer;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

/** What is known of a grant: its lease, when that was proved to stand, and leases that it may have already. */
final class Known {
    private volatile long lease;
    private volatile long proven;
    private volatile Line line;
    /** Those whose answers are still to come. */
    private final List<Asked> asked = new CopyOnWriteArrayList<>();

    /** A lease that was asked for, and since when it may be had. */
    record Asked(long since, long lease) {}

    Known(Answer granted) {
        proven = granted.sent();
        lease = leaseOf(granted);
        line = granted.line();
    }

    private static long leaseOf(Answer answer) {
        return TimeUnit.MILLISECONDS.toNanos((Long) ((List<?>) Objects.requireNonNull(answer.reply())).get(3));
    }

    long lease() {
        return lease;
    }

    /** Whose PONGs tell of it, where it is kept. */
    Line line() {
        return line;
    }

    /** The least that it may have. */
    long shortest() {
        long least = lease;
        for (Asked one : asked) {
            least = Math.min(least, one.lease);
        }
        return least;
    }

    /** Past this it is lost. */
    long until(boolean isKept) {
        long until = provenSince(proven, isKept) + lease;
        for (Asked one : asked) {
            until = sooner(until, provenSince(one.since, isKept) + one.lease);
        }
        return until;
    }

    private long provenSince(long time, boolean isKept) {
        return isKept ? line.provenSince(time) : time;
    }

    static long sooner(long one, long other) {
        return one - other < 0 ? one : other;
    }

    /** An answer that tells of it. */
    synchronized void renewed(Answer answer) {
        if (answer.sent() - proven > 0) {
            proven = answer.sent();
        }
        lease = leaseOf(answer);
        line = answer.line();
    }

    /** From now on no PONG tells of it. */
    synchronized void isKeptNoMore() {
        proven = line.provenSince(proven);
    }

    /** It may have this lease from now on. */
    synchronized Asked asks(long wanted) {
        Asked mine = new Asked(System.nanoTime(), wanted);
        asked.add(mine);
        return mine;
    }

    /** It is known what became of that call; or it never will be, and the lease may be had for good. */
    synchronized void answered(Asked one, boolean mayHave, boolean isKept) {
        asked.remove(one);
        if (mayHave && one.since + one.lease - until(isKept) < 0) {
            proven = one.since;
            lease = one.lease;
        }
    }
}
