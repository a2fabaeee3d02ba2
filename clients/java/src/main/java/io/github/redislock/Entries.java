package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** Takes a grant again for its owner: one call after the other. */
final class Entries {
    private final Core core;
    private final Held grant;
    private volatile @Nullable Call undo; // of a hold that was given up
    private volatile int begun;
    private volatile boolean isUnderWay;

    Entries(Core core, Held grant) {
        this.core = core;
        this.grant = grant;
    }

    /** How many calls there were so far. */
    int begun() {
        return begun;
    }

    /** Whether there was one since there were so many, or is now. */
    boolean isAnySince(int number) {
        return isUnderWay || begun != number;
    }

    CompletableFuture<?> enter(LockSpec spec, int wanted, long deadline) {
        Call late = undo;
        if (late != null) {
            late.abandon(Core.closedError()); // coming later it would take away this hold
        }
        LockSpec most = spec.withLease(grant.within(spec.lease()));
        boolean isKept = grant.isKept();
        Call call = new Call(core, grant.key(), Kind.ACQUIRE, deadline, words(most, wanted, isKept));
        isUnderWay = true;
        begun++;
        return call.start().thenCompose(answer -> {
            entered(answer, isKept ? spec.keepMs() : 0);
            return spec.replicas() == 0 ? CompletableFuture.<@Nullable Void>completedFuture(null)
                    : Replicas.acknowledge(core, spec, words(most, wanted, false), deadline);
        }).handle((nothing, failure) -> {
            isUnderWay = false;
            if (failure == null) {
                return grant;
            }
            LockException error = (LockException) Line.unwrapped(failure);
            if (error instanceof LockLostException) {
                throw grant.lose(error);
            }
            if (error instanceof LockUnavailableException && call.wasSent()) {
                Call made = grant.releaseTo(wanted - 1);
                undo = made;
                made.start();
            }
            throw error;
        });
    }

    private Words words(LockSpec spec, int wanted, boolean isKept) {
        return spec.acquire(grant.owner(), isKept).and("HOLDS", wanted, "TOKEN", grant.token());
    }

    private void entered(Answer answer, long keepMs) {
        if (answer.reply() == null) {
            throw new LockBusyException(grant.key() + ": others have room before this call", null);
        }
        grant.entered(answer, keepMs);
    }
}
