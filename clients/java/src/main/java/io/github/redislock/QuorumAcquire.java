package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * Asks all servers at once. A caller that gets no majority gives back what it has, and waits in line at the first server
 * that answers. Only the first in that line keeps what it has while it waits for the other servers, so no two callers wait
 * for each other. Where callers disagree about the first server, the end of their turns parts them.
 */
final class QuorumAcquire {
    private static final long TURN = TimeUnit.SECONDS.toNanos(1);
    private static final long YEARS = TimeUnit.DAYS.toNanos(3650);

    private final Ballot ballot;
    private final long wait;
    private final long begun = Core.now();

    QuorumAcquire(Ballot ballot, long wait) {
        this.ballot = ballot;
        this.wait = wait < 0 ? YEARS : wait;
    }

    private long left() {
        return Math.max(0, wait - (Core.now() - begun));
    }

    QuorumGrant run() throws InterruptedException {
        QuorumGrant lock = null;
        try {
            lock = acquire();
            return lock;
        } finally {
            ballot.finish(lock);
        }
    }

    private QuorumGrant acquire() throws InterruptedException {
        Pauses pauses = new Pauses();
        for (boolean isStuck = wait == 0;;) {
            ballot.askRest(0);
            Vote first = ballot.first();
            boolean isTurn = first != null && first.grant != null;
            if (isTurn && left() != 0 && ballot.count(Vote::isGranted) < ballot.quorum.majority) {
                ballot.leaveLines(); // where it would wait behind itself
                ballot.askRest(turnTime(left()));
            }
            // Callers in line at the first server come before, unless the line there does not move.
            long token = isTurn || isStuck ? ballot.raise() : 0;
            if (token != 0) {
                return new QuorumGrant(ballot.quorum, ballot.key, token, ballot.terms.onLost());
            }
            LockException failure = failure(left() == 0);
            ballot.giveBack();
            if (failure != null) {
                throw failure;
            }
            long rest = turnTime(left());
            if (first == null || isTurn) { // too few servers answer, or the turn is over
                first = null;
                isStuck = false;
                rest = Math.min(pauses.next(), left());
            } else {
                pauses.reset();
                isStuck = true;
                if (!first.isInLine) {
                    ballot.leaveLines();
                    ballot.ask(first, wait == YEARS ? Lockable.FOREVER : left(), true);
                }
            }
            long over = Core.now() + rest;
            while ((first == null || first.grant == null) && ballot.next(over)) {
                // Another reply.
            }
            isStuck = isStuck && first != null && first.grant == null;
            if (left() == 0) {
                throw failure(true);
            }
        }
    }

    /**
     * How long the first in line waits for the other servers before it joins the end of the line. It is also how long the
     * others wait before they see whether a majority is free all the same.
     */
    private static long turnTime(long left) {
        long turn = TURN + ThreadLocalRandom.current().nextLong(TURN);
        return Math.min(Math.min(turn, Math.max(left / 2, Ballot.PATIENCE)), left);
    }

    /** Why the acquire fails: because it would not do better later, or its time is over. */
    private @Nullable LockException failure(boolean isOver) {
        StringBuilder cause = new StringBuilder("no majority of the servers");
        int answers = 0;
        int refusals = 0;
        Kind kind = Kind.UNAVAILABLE;
        for (Vote vote : ballot.votes) {
            Throwable error = vote.error;
            if (error != null) {
                cause.append("; server ").append(ballot.votes.indexOf(vote) + 1).append(": ").append(error.getMessage());
            }
            Kind of = error == null ? null : error instanceof InterruptedException ? Kind.UNAVAILABLE : LockException.kindOf(error);
            if (vote.isInLine || vote.isBusy() || error == null && !vote.isOpen) {
                answers++;
            } else if (of != null && of != Kind.UNAVAILABLE && of != Kind.LOST) { // the same again
                refusals++;
                kind = of;
            }
        }
        boolean differs = ballot.votes.stream().anyMatch(vote -> vote.refused != 0)
                && ballot.count(Vote::isGranted) >= ballot.quorum.majority;
        if (ballot.votes.size() - refusals >= ballot.quorum.majority) {
            if (!differs && !isOver) {
                return null;
            }
            kind = differs ? Kind.REFUSED : answers >= ballot.quorum.majority ? Kind.BUSY : Kind.UNAVAILABLE;
        }
        return LockException.of("acquire", ballot.key, Fault.of(kind, cause.toString()));
    }
}
