package io.github.redislock;

import java.util.concurrent.CompletableFuture;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/** A call of a task that comes behind another one for the same lock, and is made when that has been answered. */
final class Behind {
    private final Scope scope;
    private final String key;
    private final long wait;
    private final LongFunction<Attempt> call;
    private final long begun = System.nanoTime();
    private final CompletableFuture<Ownership> result = new CompletableFuture<>();
    private final TimeLimit limit;
    private boolean mayEnd;
    private @Nullable Attempt made;
    private @Nullable Throwable reason;

    /** The call is given what is then left of the wait. */
    Behind(Scope scope, String key, long wait, LongFunction<Attempt> call) {
        this.scope = scope;
        this.key = key;
        this.wait = wait;
        this.call = call;
        limit = new TimeLimit(scope, () -> end(new LockBusyException(
                key + ": another call of its owner is under way", null)));
    }

    /** Behind one that is to enter again: what that gives is this call's own; where it gives null the call is made. */
    Behind entering(CompletableFuture<@Nullable Ownership> entered) {
        entered.whenComplete((grant, failure) -> {
            if (failure != null) {
                result.completeExceptionally(Line.unwrapped(failure));
            } else if (grant != null) {
                result.complete(grant);
            } else {
                scope.execute(this::make);
            }
        });
        return this;
    }

    /** Behind somebody else's, for no longer than this one may wait. */
    Behind other(CompletableFuture<?> answered) {
        synchronized (this) {
            mayEnd = true;
        }
        limit.set(wait == Acquire.FOR_EVER ? Acquire.FOR_EVER : begun + Math.max(wait, scope.settings().reply()));
        answered.whenComplete((nothing, failure) -> scope.execute(this::make));
        return this;
    }

    CompletableFuture<Ownership> result() {
        return result;
    }

    private void make() {
        limit.cancel();
        Throwable ended;
        synchronized (this) {
            ended = reason;
        }
        if (ended != null) {
            result.completeExceptionally(ended);
            return;
        }
        Attempt next = call.apply(left());
        synchronized (this) {
            made = next;
            ended = reason;
        }
        if (ended != null) {
            next.end().accept(ended);
        }
        next.result().whenComplete((grant, failure) -> {
            if (failure != null) {
                result.completeExceptionally(Line.unwrapped(failure));
            } else if (!result.complete(grant)) {
                grant.release();
            }
        });
    }

    /** As {@link Acquire} takes it. */
    private long left() {
        long left = wait - (System.nanoTime() - begun);
        return wait == Acquire.FOR_EVER ? wait : wait > 0 ? Math.max(0, left) : left;
    }

    /** Ends it. What is to enter again is answered all the same, in a reply's time. */
    void end(Throwable why) {
        Attempt next;
        synchronized (this) {
            if (reason == null) {
                reason = why;
            }
            next = made;
        }
        if (next != null) {
            next.end().accept(why);
        } else if (mayEnd) {
            limit.cancel();
            result.completeExceptionally(why);
        }
    }
}
