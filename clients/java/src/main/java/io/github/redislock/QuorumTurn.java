package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import io.github.redislock.QuorumCall.Said;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** A place in the line of one server, until the owner's turn comes or the server has been waited for long enough. */
final class QuorumTurn {
    private final Quorum quorum;
    private final QuorumMember member;
    private final LockSpec spec;
    private final String owner;
    private final long wait;
    private final TimeLimit limit;
    private final CompletableFuture<Boolean> result = new CompletableFuture<>();
    private final CompletableFuture<@Nullable Void> sent = new CompletableFuture<>();
    private final CompletableFuture<@Nullable Answer> answered = new CompletableFuture<>();
    private @Nullable Line line;
    private boolean isOver;
    /** Whether the owner was let go on. */
    private boolean isServed;

    QuorumTurn(Quorum quorum, QuorumMember member, LockSpec spec, String owner, long wait) {
        this.quorum = quorum;
        this.member = member;
        this.spec = spec;
        this.owner = owner;
        this.wait = wait;
        limit = new TimeLimit(quorum, () -> quorum.inBackground(callOff()));
    }

    /**
     * Whether an attempt may go on in the owner's name: it finds the grant of this line. Where it may not, the owner
     * leaves the line, and frees what it has got.
     */
    CompletableFuture<Boolean> begin() {
        limit.set(System.nanoTime() + wait + quorum.settings().reply() / 2);
        member.waitLines().take().whenComplete((taken, thrown) -> {
            if (thrown != null) {
                over(false, Line.unwrapped(thrown));
            } else {
                waitOn(taken);
            }
        });
        return result;
    }

    private void waitOn(Line taken) {
        boolean isTooLate;
        synchronized (this) {
            isTooLate = isOver;
            line = isTooLate ? null : taken;
        }
        if (isTooLate) {
            member.waitLines().giveBack(taken);
            return;
        }
        long millis = Math.max(1, TimeUnit.NANOSECONDS.toMillis(wait));
        CompletableFuture<Answer> waiting = taken.await(Caller.NONE,
                spec.acquire(owner, false).and("HOLDS", 1, "BLOCK", millis).bytes());
        sent.complete(null);
        waiting.whenComplete((answer, thrown) -> {
            if (thrown == null) {
                member.waitLines().giveBack(taken);
            } else {
                member.waitLines().drop(taken, new IOException("no answer"));
            }
            answered.complete(thrown == null ? answer : null);
            boolean hasAnswered = thrown == null && answer.error() == null;
            over(hasAnswered, hasAnswered ? null : thrown == null ? answer.error() : Line.unwrapped(thrown));
        });
    }

    private void over(boolean mayGoOn, @Nullable Throwable failure) {
        synchronized (this) {
            if (isOver) {
                return;
            }
            isOver = true;
            isServed = mayGoOn;
        }
        limit.cancel();
        if (failure != null && Meaning.of(failure, Kind.ACQUIRE) == Meaning.PASSING) {
            member.learn(failure, null);
            quorum.inBackground(release());
        }
        result.complete(mayGoOn);
    }

    /**
     * Leaves the line. Is completed when neither the place nor a grant is left: a release on another connection may
     * overtake the wait, whose grant is then still to be released.
     */
    CompletableFuture<?> callOff() {
        Line mine;
        synchronized (this) {
            if (isOver) {
                return isServed ? release() : CompletableFuture.completedFuture(null);
            }
            isOver = true;
            mine = line;
        }
        limit.cancel();
        result.complete(false);
        if (mine == null) {
            return CompletableFuture.completedFuture(null);
        }
        return sent.thenCompose(nothing -> release()).thenCompose(said -> {
            quorum.after(quorum.settings().reply(), () -> {
                if (!answered.isDone()) {
                    member.waitLines().drop(mine, new IOException("called off"));
                }
            });
            return answered;
        }).thenCompose(answer -> answer == null || answer.error() != null || answer.reply() == null
                ? CompletableFuture.completedFuture(null) : release());
    }

    private CompletableFuture<Said> release() {
        return member.release(spec.key(), owner, null, quorum.settings().reply());
    }
}
