package io.github.redislock;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * What an acquire has got of each server, and its calls to them. Each call has an owner of its own, so that a late one
 * never counts for another.
 */
final class Ballot {
    /** How long replies are waited for at least when a majority has answered. */
    static final long PATIENCE = TimeUnit.MILLISECONDS.toNanos(50);

    final Quorum quorum;
    final String key;
    final RedisLock.Terms terms;
    private final RedisLock lock; // of the first server
    final List<Vote> votes;
    private final boolean isInterruptible;
    private final LinkedBlockingQueue<Runnable> replies = new LinkedBlockingQueue<>(); // to be applied
    private int calls; // under way
    private boolean wasInterrupted;

    Ballot(Quorum quorum, RedisLock lock, boolean isInterruptible) {
        this.quorum = quorum;
        this.lock = lock;
        key = lock.fullKey();
        terms = lock.terms;
        this.isInterruptible = isInterruptible;
        votes = quorum.members.stream().map(Vote::new).toList();
    }

    int count(Predicate<Vote> is) {
        return (int) votes.stream().filter(is).count();
    }

    /** The first server that has answered. */
    @Nullable Vote first() {
        return votes.stream().filter(vote -> vote.grant != null || vote.isBusy() && !vote.isOpen && !vote.isInLine
                || vote.isInLine && !vote.isDown()).findFirst().orElse(null);
    }

    /** Makes a call in the background, and has its outcome applied by the thread of this ballot: a result or an error. */
    private <T> void call(Vote vote, Callable<T> call, BiConsumer<@Nullable T, @Nullable Exception> apply) {
        calls++;
        vote.member.elsewhere(() -> {
            try {
                T result = call.call();
                replies.add(() -> apply.accept(result, null));
            } catch (Exception e) {
                replies.add(() -> apply.accept(null, e));
            }
        });
    }

    /** Acquires the lock of all servers that have neither granted it nor are being asked. */
    void askRest(long wait) throws InterruptedException {
        long time = terms.isFixed() ? Math.min(wait, terms.lease() / 2) : wait; // nobody renews what it has
        for (Vote vote : votes) {
            if (vote.grant == null && !vote.isOpen && !vote.isInLine) {
                ask(vote, time, false);
            }
        }
        collect(Vote::isGranted, PATIENCE);
    }

    /** Acquires the lock of one server. */
    void ask(Vote vote, long wait, boolean inLine) {
        int asks = ++vote.asks;
        vote.isOpen = !inLine;
        vote.isInLine = inLine;
        // In line the other servers see to the maximum time.
        RedisLock.Terms of = new RedisLock.Terms(List.of(), terms.lease(), terms.isFixed(), inLine ? 0 : terms.atMost(), null);
        Acquire asking = new Acquire(new RedisLock(vote.member, lock.key, of, Lockable.FOREVER, null), true);
        vote.asking = asking;
        call(vote, () -> asking.within(wait), (grant, error) -> {
            if (vote.asks == asks) {
                vote.answered(grant, error);
            } else if (grant != null) {
                vote.member.elsewhere(grant::giveUp);
            }
        });
    }

    /** Gives up the places in line. */
    void leaveLines() {
        for (Vote vote : votes) {
            if (vote.isInLine && vote.asking != null) {
                vote.isInLine = false;
                vote.asks++;
                vote.asking.stop();
            }
        }
    }

    /** Applies a reply, if one comes before this time. */
    boolean next(long end) throws InterruptedException {
        for (;;) {
            try {
                Runnable apply = replies.poll(Math.max(0, end - Core.now()), TimeUnit.NANOSECONDS);
                if (apply != null) {
                    calls--;
                    apply.run();
                }
                return apply != null;
            } catch (InterruptedException e) {
                wasInterrupted = true;
                if (isInterruptible) {
                    throw e;
                }
            }
        }
    }

    /**
     * Applies replies until a majority is as it should be, or cannot be any more. With patience it then waits for the
     * others as long again, but not for servers that are down.
     */
    private void collect(Predicate<Vote> is, long patience) throws InterruptedException {
        long begun = Core.now();
        long over = Long.MAX_VALUE;
        for (int open = count(vote -> vote.isOpen); open > 0; open = count(vote -> vote.isOpen)) {
            int done = count(is);
            if (done >= quorum.majority || done + open < quorum.majority) {
                if (patience == 0 || count(vote -> vote.isOpen && !vote.isDown()) == 0) {
                    return;
                }
                long now = Core.now();
                over = Math.min(over, now + Math.min(Math.max(now - begun, patience), 5 * patience));
            }
            if (!next(over)) {
                return;
            }
        }
    }

    /** The highest token that a majority can have, as far as is known; 0: there is none. */
    private long common() {
        return votes.stream().filter(Vote::isGranted).mapToLong(vote -> vote.token)
                .filter(token -> count(other -> other.canHave(token)) >= quorum.majority).max().orElse(0);
    }

    /**
     * Gives a majority one token, which it returns; 0: there is none. Servers whose clocks differ are left out, as far as a
     * majority remains.
     */
    long raise() throws InterruptedException {
        for (;;) {
            long token = common();
            boolean isSent = false;
            for (Vote vote : votes) {
                if (vote.canHave(token) && !vote.isOpen && !vote.has(token)) {
                    raise(vote, token);
                    isSent = true;
                }
            }
            collect(vote -> vote.has(token), 0);
            if (count(vote -> vote.has(token)) >= quorum.majority) {
                return token;
            }
            // A server that has not answered yet may make a majority.
            if (!isSent && (count(vote -> vote.isOpen) == 0 || !next(Long.MAX_VALUE))) {
                return 0;
            }
        }
    }

    private void raise(Vote vote, long token) {
        Grant grant = Objects.requireNonNull(vote.grant);
        vote.isOpen = true;
        call(vote, () -> grant.raise(token), (isRaised, error) -> {
            vote.isOpen = false;
            if (error != null) {
                vote.error = error;
                vote.grant = null;
                vote.member.elsewhere(grant::giveUp);
            } else if (Boolean.TRUE.equals(isRaised)) {
                vote.token = token;
                vote.isRaised = true;
            } else {
                vote.refused = token;
                vote.error = new LockUnavailableException("its clock is behind that of another server");
            }
        });
    }

    /** Gives up what has been granted. The next round does not meet it, if the servers answer. */
    void giveBack() {
        List<Thread> releases = new ArrayList<>();
        for (Vote vote : votes) {
            Grant grant = vote.grant;
            if (grant != null && !vote.isOpen) {
                vote.grant = null;
                releases.add(vote.member.thread("release", grant::giveUp));
            }
        }
        Core.all(releases, 2 * quorum.members.get(0).settings.reply());
    }

    /** Adds to the lock what has its token, until it ends. */
    private void hand(QuorumGrant lock) {
        for (Vote vote : votes) {
            Grant grant = vote.grant;
            if (grant != null && vote.isRaised && vote.token == lock.token() && !vote.isOpen && lock.add(grant, vote.member)) {
                vote.grant = null;
            }
        }
    }

    /** Gives back the rest, in the background. Raises that are answered late still join the lock. */
    void finish(@Nullable QuorumGrant lock) {
        leaveLines();
        if (lock == null) {
            votes.stream().filter(vote -> vote.isOpen && vote.asking != null).forEach(vote -> vote.asking.stop());
        } else {
            hand(lock);
        }
        if (wasInterrupted && !isInterruptible) {
            Thread.currentThread().interrupt();
        }
        if (calls > 0 || count(Vote::isGranted) > 0) {
            quorum.members.get(0).thread("quorum", () -> rest(lock)).start();
        }
    }

    private void rest(@Nullable QuorumGrant lock) {
        try {
            for (giveBack(); calls > 0; giveBack()) {
                next(Long.MAX_VALUE);
                if (lock != null) {
                    hand(lock);
                }
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e); // nobody has this thread
        }
    }
}
