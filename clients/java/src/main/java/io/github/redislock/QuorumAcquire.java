package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Asks all servers at once. A caller that gets no majority gives back what it has, and waits in line at the first server
 * that answers. Only the first in that line keeps what it has while it waits for the other servers, so no two callers wait
 * for each other. Where callers disagree about the first server, the end of their turns parts them.
 *
 * <p>The monitor guards the votes. Calls run in the background, and each notifies the monitor of its outcome. Each acquire
 * of a server has an owner of its own, so that a late one never counts for another.
 */
final class QuorumAcquire {
    /** How long replies are waited for at least when a majority has answered. */
    private static final long PATIENCE = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long TURN = TimeUnit.SECONDS.toNanos(1);
    private static final long YEARS = TimeUnit.DAYS.toNanos(3650);

    private final Quorum quorum;
    private final RedisLock lock; // of the first server
    private final boolean isInterruptible;
    private final long wait;
    private final long end;
    private final List<Vote> votes;
    private int givingBack; // calls under way
    private boolean wasInterrupted;
    private boolean isOver;
    private @Nullable QuorumGrant acquired;

    QuorumAcquire(Quorum quorum, RedisLock lock, long wait, boolean isInterruptible) {
        this.quorum = quorum;
        this.lock = lock;
        this.isInterruptible = isInterruptible;
        this.wait = wait < 0 ? YEARS : wait;
        end = Core.now() + this.wait;
        votes = quorum.members.stream().map(Vote::new).toList();
    }

    private long left() {
        return Math.max(0, end - Core.now());
    }

    private int count(Predicate<Vote> is) {
        return (int) votes.stream().filter(is).count();
    }

    private boolean isMajority(Predicate<Vote> is) {
        return count(is) >= quorum.majority;
    }

    /** Acquires. A grant that is answered later joins the lock if it has the lock's token, and is given back otherwise. */
    synchronized QuorumGrant run() throws InterruptedException {
        try {
            acquired = acquire();
            return acquired;
        } finally {
            isOver = true;
            for (Vote vote : votes) {
                vote.stop();
                settle(vote);
            }
            if (wasInterrupted && !isInterruptible) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private QuorumGrant acquire() throws InterruptedException {
        Pauses pauses = new Pauses();
        for (boolean isStuck = wait == 0;;) {
            askRest(0);
            Vote first = votes.stream().filter(Vote::hasAnswered).findFirst().orElse(null);
            boolean isTurn = first != null && first.grant != null;
            if (isTurn && left() != 0 && !isMajority(Vote::isGranted)) {
                leaveLines(); // where it would wait behind itself
                askRest(turnTime(left()));
            }
            // Callers in line at the first server come before, unless the line there does not move.
            long token = isTurn || isStuck ? raise() : 0;
            if (token != 0) {
                return new QuorumGrant(quorum, lock.fullKey(), token, lock.terms.onLost());
            }
            LockException failure = failure(left() == 0);
            giveBack();
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
                    leaveLines();
                    ask(first, wait == YEARS ? Lockable.FOREVER : left(), true);
                }
            }
            long over = Core.now() + rest;
            while ((first == null || first.grant == null) && await(over)) {
                // Another reply.
            }
            isStuck = isStuck && first.grant == null;
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
        return Math.min(Math.min(turn, Math.max(left / 2, PATIENCE)), left);
    }

    /** Why the acquire fails: because it would not do better later, or its time is over. */
    private @Nullable LockException failure(boolean isOver) {
        List<Kind> refusals = votes.stream().map(Vote::kind)
                .filter(kind -> !Set.of(Kind.BUSY, Kind.LOST, Kind.UNAVAILABLE).contains(kind)).toList();
        boolean differs = isMajority(Vote::isGranted) && count(vote -> vote.refused != 0) > 0;
        boolean isRefused = votes.size() - refusals.size() < quorum.majority;
        if (!isRefused && !differs && !isOver) {
            return null;
        }
        Kind kind = isRefused ? refusals.get(0) : differs ? Kind.REFUSED
                : isMajority(vote -> vote.kind() == Kind.BUSY) ? Kind.BUSY : Kind.UNAVAILABLE;
        String causes = votes.stream().filter(vote -> vote.error != null)
                .map(vote -> "; server " + (votes.indexOf(vote) + 1) + ": " + vote.error.getMessage())
                .collect(Collectors.joining());
        return LockException.of("acquire", lock.fullKey(), Fault.of(kind, "no majority of the servers" + causes));
    }

    /** Makes a call in the background, and applies its outcome: a result or an error. */
    private <T> void call(Vote vote, Callable<T> call, BiConsumer<@Nullable T, @Nullable Exception> apply) {
        vote.member.elsewhere(() -> {
            T result = null;
            Exception error = null;
            try {
                result = call.call();
            } catch (Exception e) {
                error = e;
            }
            synchronized (this) {
                apply.accept(result, error);
                if (isOver) {
                    settle(vote);
                }
                notifyAll();
            }
        });
    }

    /** Waits for an outcome until this time. Returns whether there is time left. */
    private boolean await(long end) throws InterruptedException {
        try {
            TimeUnit.NANOSECONDS.timedWait(this, Math.min(YEARS, end - Core.now()));
        } catch (InterruptedException e) {
            wasInterrupted = true;
            if (isInterruptible) {
                throw e;
            }
        }
        return Core.now() < end;
    }

    /** Acquires the lock of all servers that have neither granted it nor are being asked. */
    private void askRest(long wait) throws InterruptedException {
        long time = lock.terms.isFixed() ? Math.min(wait, lock.terms.lease() / 2) : wait; // nobody renews what it has
        for (Vote vote : votes) {
            if (vote.grant == null && vote.asking == null) {
                ask(vote, time, false);
            }
        }
        collect(Vote::isGranted, PATIENCE);
    }

    /** Acquires the lock of one server. */
    private void ask(Vote vote, long wait, boolean isInLine) {
        // In line the other servers see to the maximum time.
        RedisLock.Terms terms = new RedisLock.Terms(List.of(), lock.terms.lease(), lock.terms.isFixed(),
                isInLine ? 0 : lock.terms.atMost(), null);
        Acquire asking = new Acquire(new RedisLock(vote.member, lock.key, terms, Lockable.FOREVER, null), true);
        vote.asking = asking;
        vote.isInLine = isInLine;
        call(vote, () -> asking.within(wait), (grant, error) -> {
            if (vote.asking == asking) {
                vote.answered(grant, error);
            } else if (grant != null) {
                giveBack(vote, grant);
            }
        });
    }

    /** Gives up the places in line. */
    private void leaveLines() {
        votes.stream().filter(vote -> vote.isInLine).forEach(Vote::stop);
    }

    /**
     * Waits until a majority is as it should be, or cannot be any more. With patience it then waits for the others as long
     * again, but not for servers that are down.
     */
    private void collect(Predicate<Vote> is, long patience) throws InterruptedException {
        long begun = Core.now();
        long over = Long.MAX_VALUE;
        for (int open = count(Vote::isOpen); open > 0; open = count(Vote::isOpen)) {
            if (isMajority(is) || count(is) + open < quorum.majority) {
                if (patience == 0 || count(vote -> vote.isOpen() && !vote.isDown()) == 0) {
                    return;
                }
                long now = Core.now();
                over = Math.min(over, now + Math.min(Math.max(now - begun, patience), 5 * patience));
            }
            if (!await(over)) {
                return;
            }
        }
    }

    /** The highest token that a majority can have, as far as is known; 0: there is none. */
    private long common() {
        return votes.stream().filter(Vote::isGranted).mapToLong(vote -> vote.token)
                .filter(token -> isMajority(other -> other.canHave(token))).max().orElse(0);
    }

    /**
     * Gives a majority one token, which it returns; 0: there is none. Servers whose clocks differ are left out, as far as a
     * majority remains.
     */
    private long raise() throws InterruptedException {
        for (;;) {
            long token = common();
            boolean isSent = false;
            for (Vote vote : votes) {
                if (vote.canHave(token) && !vote.isRaising && !vote.has(token)) {
                    raise(vote, token);
                    isSent = true;
                }
            }
            collect(vote -> vote.has(token), 0);
            if (isMajority(vote -> vote.has(token))) {
                return token;
            }
            // A server that has not answered yet may make a majority.
            if (!isSent && (count(Vote::isOpen) == 0 || !await(Long.MAX_VALUE))) {
                return 0;
            }
        }
    }

    private void raise(Vote vote, long token) {
        Grant grant = Objects.requireNonNull(vote.grant);
        vote.isRaising = true;
        call(vote, () -> grant.raise(token), (isRaised, error) -> {
            vote.isRaising = false;
            if (error != null) {
                vote.error = error;
                vote.grant = null;
                giveBack(vote, grant);
            } else if (Boolean.TRUE.equals(isRaised)) {
                vote.token = token;
                vote.isRaised = true;
            } else {
                vote.refused = token;
                vote.error = LockException.of("raise", lock.fullKey(),
                        Fault.of(Kind.UNAVAILABLE, "its clock is behind that of another server"));
            }
        });
    }

    private void giveBack(Vote vote, Grant grant) {
        givingBack++;
        call(vote, () -> {
            grant.giveUp();
            return grant;
        }, (given, error) -> givingBack--);
    }

    /** Gives up what has been granted. The next round does not meet it, if the servers answer. */
    private void giveBack() throws InterruptedException {
        long over = quorum.members.get(0).end();
        votes.forEach(this::settle);
        while (givingBack > 0 && await(over)) {
            // Another one.
        }
    }

    /** Adds to the lock what a server has granted, until the lock ends, or gives it back. */
    private void settle(Vote vote) {
        Grant grant = vote.grant;
        if (grant != null && !vote.isRaising) {
            vote.grant = null;
            boolean isPart = acquired != null && vote.isRaised && vote.token == acquired.token();
            if (!isPart || !acquired.add(grant)) {
                giveBack(vote, grant);
            }
        }
    }
}
