package io.github.redislock;

import io.github.redislock.Meaning.Kind;
import io.github.redislock.QuorumOutcome.Failed;
import io.github.redislock.QuorumOutcome.Got;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** One attempt to take a lock on several servers: ask all, then raise the grants of a majority to one token. */
final class QuorumAttempt {
    /** How long the others are waited for at least, when the first ones have decided. */
    private static final long LEAST_GRACE = TimeUnit.MILLISECONDS.toNanos(50);

    private final Quorum quorum;
    private final LockSpec spec;
    private final String owner;
    private final List<QuorumPart> parts;
    private final long start = System.nanoTime();
    private final CompletableFuture<QuorumOutcome> result = new CompletableFuture<>();
    private @Nullable Future<?> grace;
    private boolean isGraceOver;
    private List<QuorumPart> chosen = List.of();
    private long raise;
    private long raisedSince;
    private boolean hasFailed;
    private boolean isHeld;
    private boolean isStopped;

    /** Nobody has used the owner before, but to wait in the line of the server that is given. */
    QuorumAttempt(Quorum quorum, LockSpec spec, String owner, @Nullable QuorumMember turn) {
        this.quorum = quorum;
        this.spec = spec;
        this.owner = owner;
        parts = quorum.members().stream().map(member -> new QuorumPart(quorum, this, member, member == turn)).toList();
    }

    LockSpec spec() {
        return spec;
    }

    String owner() {
        return owner;
    }

    /** The token that all grants are to have; 0 where it is not known yet. */
    synchronized long raise() {
        return raise;
    }

    synchronized boolean hasFailed() {
        return hasFailed;
    }

    synchronized boolean isHeld() {
        return isHeld;
    }

    /** Whether a renewal or a release of the lock has begun. */
    synchronized boolean isStopped() {
        return isStopped;
    }

    private CompletableFuture<?> stop(QuorumMember member) {
        synchronized (this) {
            isStopped = true;
        }
        return parts.get(quorum.members().indexOf(member)).stop();
    }

    /** Asks all servers at once that are not known to be down; none where there are too few. */
    CompletableFuture<QuorumOutcome> begin() {
        if (quorum.members().stream().filter(member -> member.down() == null).count() < quorum.majority()) {
            over(new Failed(tooFew(), null));
        } else {
            quorum.next(owner, this::stop, settled());
            parts.forEach(QuorumPart::begin);
        }
        return result;
    }

    /** Gives back what it has got, and what may still come. Is completed when that was tried on all servers. */
    CompletableFuture<?> callOff() {
        over(new Failed(Meaning.PASSING.error(spec.key(), null), null));
        return isHeld() ? quorum.giveBack(spec.key(), owner) : settled();
    }

    /** When nothing is left to be asked of any server. */
    CompletableFuture<?> settled() {
        return CompletableFuture.allOf(parts.stream().map(QuorumPart::settled).toArray(CompletableFuture<?>[]::new));
    }

    /** Goes on, as far as what has been said allows. */
    void look() {
        QuorumOutcome outcome;
        synchronized (this) {
            if (hasFailed || isHeld) {
                return;
            }
            long before = raise;
            outcome = raise == 0 ? gathered() : raised();
            if (outcome == null && raise == before) {
                return;
            }
        }
        if (outcome != null) {
            over(outcome);
        } else {
            parts.forEach(QuorumPart::goOn);
        }
    }

    private void over(QuorumOutcome outcome) {
        synchronized (this) {
            if (hasFailed || isHeld) {
                return;
            }
            hasFailed = outcome instanceof Failed;
            isHeld = !hasFailed;
            if (grace != null) {
                grace.cancel(false);
            }
        }
        parts.forEach(outcome instanceof Failed ? QuorumPart::giveUp : QuorumPart::goOn);
        result.complete(outcome);
    }

    private List<QuorumPart> those(Predicate<QuorumPart> are) {
        return parts.stream().filter(are).toList();
    }

    /** Round 1: each server that is with it from the start is one more that can fail later. */
    private @Nullable QuorumOutcome gathered() {
        List<QuorumPart> granted = those(part -> part.token() != 0);
        int unheard = those(part -> !part.isHeard()).size();
        boolean isEnough = granted.size() >= quorum.majority();
        if (unheard == 0 || isGraceOver) {
            if (!isEnough) {
                return mayYetBeTooFew() ? null : failure();
            }
            choose(granted);
        } else if (grace == null && (isEnough || granted.size() + unheard < quorum.majority())) {
            long wait = isEnough ? Math.max(LEAST_GRACE, System.nanoTime() - start) : LEAST_GRACE;
            grace = quorum.after(wait, () -> {
                synchronized (this) {
                    isGraceOver = true;
                }
                look();
            });
        }
        return null;
    }

    private void choose(List<QuorumPart> grants) {
        chosen = grants;
        raise = grants.stream().mapToLong(QuorumPart::token).max().orElseThrow();
        raisedSince = System.nanoTime();
    }

    /** Round 2: where the token is too far ahead for a majority, again without the servers whose clock gave it. */
    private @Nullable QuorumOutcome raised() {
        if (those(part -> part.isRaisedTo(raise)).size() >= quorum.majority()) {
            boolean isInTime = Quorum.trustedUntil(raisedSince, spec.lease().toNanos()) - System.nanoTime() > 0;
            return isInTime ? new Got(raise, raisedSince) : new Failed(late(), null);
        }
        if (!chosen.stream().allMatch(part -> part.isDecided(raise))) {
            return null;
        }
        List<QuorumPart> behind = those(part -> part.isBehind(raise)); // also of those that came late
        if (behind.size() >= quorum.majority()) {
            choose(behind);
            return null;
        }
        boolean isAllSaid = parts.stream().allMatch(part -> part.isHeard()
                && (part.token() > raise || part.isDecided(raise)));
        if (!isAllSaid) {
            return null; // those that are late may yet make a majority
        }
        return behind.isEmpty() ? failure() : new Failed(differ(behind), null);
    }

    /** Whether it hangs on servers that have yet to answer that a majority can be used. */
    private boolean mayYetBeTooFew() {
        int answered = usable(QuorumPart::isHeard).size();
        return answered < quorum.majority() && usable(part -> true).size() >= quorum.majority();
    }

    private List<QuorumPart> usable(Predicate<QuorumPart> are) {
        return those(are.and(part -> part.failure() == null && part.member().down() == null));
    }

    private Failed failure() {
        List<QuorumPart> failed = those(part -> part.failure() != null);
        List<QuorumPart> refused = failed.stream().filter(part -> meaning(part) != Meaning.PASSING).toList();
        if (refused.size() > parts.size() - quorum.majority()) {
            QuorumPart one = refused.get(0);
            return new Failed(meaning(one).error(spec.key() + " on " + one.member(), one.failure()), null);
        }
        List<QuorumPart> usable = usable(part -> true);
        if (usable.size() < quorum.majority()) {
            return new Failed(tooFew(), null);
        }
        if (those(QuorumPart::isBusy).isEmpty()) {
            return new Failed(late(), null);
        }
        // Which servers said no is chance; that all go to the same line is what makes it one.
        QuorumMember first = usable.stream().filter(part -> part.token() == 0).map(QuorumPart::member).findFirst().orElse(null);
        return new Failed(new LockBusyException(spec.key() + ": no majority of the servers has granted it", null), first);
    }

    private static Meaning meaning(QuorumPart failed) {
        return Meaning.of(Objects.requireNonNull(failed.failure()), Kind.ACQUIRE);
    }

    private LockBusyException late() {
        return new LockBusyException(spec.key() + ": the grants of a majority came too late", null);
    }

    private LockUnavailableException tooFew() {
        return quorum.tooFew(spec.key(), member -> parts.stream().filter(part -> part.member() == member)
                .map(QuorumPart::failure).filter(Objects::nonNull).findFirst().orElse(null));
    }

    private LockRefusedException differ(List<QuorumPart> behind) {
        return new LockRefusedException(spec.key() + ": AHEAD the clock of " + names(behind) + " is too far behind that of "
                + names(those(part -> part.token() == raise)) + ", and there is no majority without them", null);
    }

    private static String names(List<QuorumPart> some) {
        return some.stream().map(part -> part.member().toString()).collect(Collectors.joining(" and "));
    }
}
