package io.github.redislock;

import io.github.redislock.Meaning.Kind;
import io.github.redislock.QuorumCall.Said;
import io.github.redislock.spi.ReplyError;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What one server has to do with one attempt to take a lock, until it holds the lock for good or has been told to free
 * it. It does one thing after the other, as the attempt wants it; what it knows is guarded by the attempt.
 */
final class QuorumPart {
    private final Quorum quorum;
    private final QuorumAttempt attempt;
    private final QuorumMember member;
    /** Whether the owner may have a grant there already: its turn has come in that server's line. */
    private final boolean isTurn;
    private final CompletableFuture<@Nullable Void> settled = new CompletableFuture<>();
    private @Nullable QuorumCall call;
    private @Nullable QuorumCall releasing;
    private @Nullable Line on;
    private boolean isHeard;
    private boolean isBusy;
    private boolean isFree;
    private boolean isGone = true;
    private boolean isSettling;
    private long token;
    private long raised;
    private long refused;
    private @Nullable Throwable failure;

    QuorumPart(Quorum quorum, QuorumAttempt attempt, QuorumMember member, boolean isTurn) {
        this.quorum = quorum;
        this.attempt = attempt;
        this.member = member;
        this.isTurn = isTurn;
    }

    QuorumMember member() {
        return member;
    }

    /** Whether the first question is answered, or its time over. */
    boolean isHeard() {
        return isHeard;
    }

    /** Whether others have the lock there. */
    boolean isBusy() {
        return isBusy;
    }

    /** The token of the grant; 0 where there is none. */
    long token() {
        return token;
    }

    /** Why it has neither granted nor refused for others; null where it has. */
    @Nullable Throwable failure() {
        return failure;
    }

    boolean isRaisedTo(long to) {
        return raised == to;
    }

    /** Whether that token is too far ahead of the server's time. */
    boolean isBehind(long to) {
        return refused == to && !isGone;
    }

    /** Whether it is known what became of raising the grant to this token. Once raised, it is raised no more. */
    boolean isDecided(long to) {
        return isGone || raised != 0 || refused == to;
    }

    /** Is completed when nothing is left to be asked of the server. */
    CompletableFuture<@Nullable Void> settled() {
        return settled;
    }

    /** Asks for the lock. */
    void begin() {
        QuorumCall asking;
        synchronized (attempt) {
            if (call != null || isSettling) {
                return;
            }
            asking = ask(attempt.spec().acquire(attempt.owner(), false).and("HOLDS", 1));
        }
        start(asking, this::taken);
    }

    private void taken(Said said) {
        isHeard = true;
        token = said.reply() instanceof List<?> fields && !fields.isEmpty() && fields.get(0) instanceof Long granted
                ? granted : 0;
        isGone = token == 0;
        isBusy = said.failure() == null && said.reply() == null;
        failure = said.failure() != null || isBusy || !isGone ? said.failure()
                : new IllegalStateException("this is no grant: " + said.reply());
        // A call whose answer was lost may be carried out after the one that was answered.
        isFree = isBusy && !said.isRepeated() || said.failure() instanceof ReplyError && !said.isPassing();
    }

    private void raised(Said said, long to) {
        if (said.failure() == null) {
            raised = to;
            return;
        }
        refused = to;
        isGone = !said.begins("AHEAD");
        if (isGone && said.meaning(Kind.RENEW) != Meaning.LOST) {
            failure = said.failure();
        }
    }

    /** Does what is next, where nothing is under way. */
    void goOn() {
        long to;
        QuorumCall asking = null;
        QuorumCall release = null;
        synchronized (attempt) {
            to = attempt.raise();
            if (call != null || isSettling) {
                return;
            }
            if (!attempt.hasFailed() && !attempt.isStopped() && to >= token && !isDecided(to)) {
                LockSpec spec = attempt.spec();
                asking = ask(Words.of("LOCK.RENEW", spec.key(), attempt.owner(), "PX", spec.lease().toMillis(),
                        "TOKEN", token, "RAISE", to));
            } else if (attempt.hasFailed() || attempt.isHeld()) {
                isSettling = true;
                boolean isLeft = attempt.isHeld() && raised == to || attempt.isStopped() && mayBeCounted();
                if (!isLeft && !isFree && (on != null || isTurn)) {
                    release = member.releasing(attempt.spec().key(), attempt.owner(), limit());
                    releasing = release;
                }
            } else {
                return;
            }
        }
        if (asking != null) {
            start(asking, said -> raised(said, to));
        } else if (release == null) {
            settled.complete(null);
        } else {
            member.release(attempt.spec().key(), attempt.owner(), on, release).thenAccept(said -> settled.complete(null));
        }
    }

    /** Whether the grant may have the token of the lock, so that a renewal may count it. */
    private boolean mayBeCounted() {
        return token != 0 && token <= attempt.raise();
    }

    /**
     * The lock is renewed or released: nothing is asked behind that, nor is what may be counted by then released. Tells
     * when nothing is being sent any more.
     */
    CompletableFuture<?> stop() {
        QuorumCall underWay;
        synchronized (attempt) {
            underWay = call != null || !mayBeCounted() ? call : releasing;
        }
        return underWay == null ? CompletableFuture.completedFuture(null) : underWay.stop();
    }

    /** What is under way is not waited for: what comes behind it frees the lock. */
    void giveUp() {
        QuorumCall underWay;
        synchronized (attempt) {
            underWay = call;
        }
        if (underWay != null) {
            underWay.callOff();
        } else {
            goOn();
        }
    }

    private QuorumCall ask(Words words) {
        QuorumCall asking = new QuorumCall(quorum, member, words, limit());
        call = asking;
        return asking;
    }

    private long limit() {
        return quorum.limit(attempt.spec().lease().toNanos());
    }

    private void start(QuorumCall asking, Consumer<Said> note) {
        asking.start().thenAccept(said -> {
            synchronized (attempt) {
                call = null;
                Line last = asking.on();
                on = last == null ? on : last;
                note.accept(said);
            }
            attempt.look();
            goOn();
        });
    }
}
