package io.github.redislock;

import io.github.redislock.Meaning.Kind;
import io.github.redislock.QuorumCall.Said;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** A call about a held lock to all servers at once, and what they have answered so far. */
final class QuorumRound {
    private final Quorum quorum;
    private final String key;
    private final Kind kind;
    private final CompletableFuture<QuorumRound> decided = new CompletableFuture<>();
    private final CompletableFuture<QuorumRound> heard = new CompletableFuture<>();
    private final Map<QuorumMember, Throwable> lost = new LinkedHashMap<>();
    private final Map<QuorumMember, Throwable> failed = new LinkedHashMap<>();
    private int done;

    QuorumRound(Quorum quorum, String key, Kind kind) {
        this.quorum = quorum;
        this.key = key;
        this.kind = kind;
    }

    /** Asks each server in this way. The rest goes on when it is decided. */
    QuorumRound ask(Function<QuorumMember, CompletableFuture<Said>> call) {
        for (QuorumMember member : quorum.members()) {
            call.apply(member).thenAccept(said -> note(member, said));
        }
        return this;
    }

    /** When a majority has done it or cannot do it; a release may still be done by servers that come back. */
    CompletableFuture<QuorumRound> decided() {
        return decided;
    }

    /** When each server has answered, or is known not to. */
    CompletableFuture<QuorumRound> heard() {
        return heard;
    }

    private void note(QuorumMember member, Said said) {
        Meaning meaning = said.meaning(kind);
        Throwable failure = said.failure();
        boolean isOwed = false;
        synchronized (this) {
            if (failure == null || kind == Kind.RELEASE && meaning == Meaning.LOST && said.isRepeated()) {
                done++; // the first of two calls has done it
            } else if (meaning == Meaning.LOST) {
                lost.put(member, failure);
            } else {
                failed.put(member, failure);
                isOwed = kind == Kind.RELEASE && meaning == Meaning.PASSING;
            }
        }
        look();
        if (isOwed) {
            member.back().thenRun(() -> {
                synchronized (this) {
                    failed.remove(member);
                    done++; // it was told of it first
                }
                look();
            });
        }
    }

    private void look() {
        boolean isHeard;
        boolean isDecided;
        synchronized (this) {
            isHeard = done + lost.size() + failed.size() == quorum.members().size();
            isDecided = isDone() || isMajority(lost.size())
                    || isHeard && (kind != Kind.RELEASE || isAnswered() || error() != null);
        }
        if (isDecided) {
            decided.complete(this);
        }
        if (isHeard) {
            heard.complete(this);
        }
    }

    private boolean isMajority(int number) {
        return number >= quorum.majority();
    }

    /** Whether a majority has done it. */
    synchronized boolean isDone() {
        return isMajority(done);
    }

    /** Whether a majority has done it, or had nothing to do. */
    synchronized boolean isAnswered() {
        return isMajority(done + lost.size());
    }

    /** What says that to ask again can change nothing; null where it can. */
    synchronized @Nullable LockException error() {
        if (isMajority(lost.size())) {
            // Which says most: that somebody else has it.
            Throwable why = lost.values().stream().filter(QuorumRound::namesAnother).findFirst()
                    .orElseGet(() -> lost.values().iterator().next());
            return Meaning.LOST.error(key, why);
        }
        Map.Entry<QuorumMember, Throwable> first = null;
        int refused = 0;
        for (Map.Entry<QuorumMember, Throwable> one : failed.entrySet()) {
            if (Meaning.of(one.getValue(), kind) != Meaning.PASSING) {
                refused++;
                first = first == null ? one : first;
            }
        }
        return first == null || !isMajority(refused) ? null
                : Meaning.of(first.getValue(), kind).error(key + " on " + first.getKey(), first.getValue());
    }

    private static boolean namesAnother(Throwable lost) {
        String text = String.valueOf(lost.getMessage());
        return text.startsWith("NOTOWNER") || text.startsWith("FENCED");
    }

    /** What is told when there is no time to ask again. */
    synchronized LockUnavailableException tooFew() {
        return quorum.tooFew(key, failed::get);
    }
}
