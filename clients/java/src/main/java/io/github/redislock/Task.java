package io.github.redislock;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * What is one owner to the server: it may take a lock again that it has, and a circle of waits of several tasks is found.
 * A {@link ThreadLock} has one for each thread; a task of your own goes along with work that changes threads.
 */
public final class Task {
    /** A call that is under way; one that was called off is waited for by the next. */
    private static final class Asking extends CompletableFuture<@Nullable Void> {
        private volatile boolean isCalledOff;
    }

    private final Scope scope;
    private final Supplier<String> owners;
    private final @Nullable Names names;
    private final Map<String, Ownership> held = new ConcurrentHashMap<>();
    private final Map<String, Asking> asking = new ConcurrentHashMap<>();
    private volatile String owner;
    /** How many calls are under way, as {@link Names} counts them. */
    int calls;

    /** Its owner is the first of these, and the next one where the last must not be used again. */
    Task(Scope scope, Supplier<String> owners) {
        this(scope, owners, null);
    }

    /** One that the user has named, as these know. */
    Task(Scope scope, Supplier<String> owners, @Nullable Names names) {
        this.scope = scope;
        this.owners = owners;
        this.names = names;
        owner = owners.get();
    }

    /**
     * The name in which it asks for its next lock; servers that decide together know each of its grants by a name of its
     * own. It is another one after a call of which it is not known what became of it: {@link Grant#owner} stays.
     */
    public String owner() {
        return owner;
    }

    boolean isNamed() {
        return names != null;
    }

    @Nullable Ownership held(String key) {
        return held.get(key);
    }

    boolean isIdle() {
        return held.isEmpty() && asking.isEmpty();
    }

    void forget(Ownership grant) {
        held.remove(grant.key(), grant);
        if (names != null) {
            names.tidy(this);
        }
    }

    /** What was sent in this name may yet come late: a task goes on with another one. A name of the user's stays. */
    synchronized void leaveOwner(String late) {
        if (names == null && owner.equals(late)) {
            owner = owners.get();
        }
    }

    /** Takes a lock, or takes it again. */
    Attempt acquire(LockSpec spec, long wait, Caller caller) {
        CompletableFuture<@Nullable Ownership> entered = enterAgain(spec);
        if (entered == null) {
            Asking answered = new Asking();
            Asking before = asking.putIfAbsent(spec.key(), answered);
            if (before != null && names == null && !before.isCalledOff) {
                return attempt(CompletableFuture.failedFuture(
                        new LockMisuseException(spec.key() + ": the task waits for it already", null)), reason -> { }, caller);
            }
            if (before != null) {
                Behind behind = behind(spec, wait).other(before);
                return attempt(behind.result(), behind::end, caller);
            }
            entered = enterAgain(spec); // by a call that has ended just now
            if (entered == null) {
                return anew(spec, wait, caller, answered);
            }
            answered(spec.key(), answered);
        }
        Behind behind = behind(spec, wait).entering(entered);
        return attempt(behind.result(), behind::end, caller);
    }

    private Behind behind(LockSpec spec, long wait) {
        return new Behind(scope, spec.key(), wait, left -> acquire(spec, left, Caller.NONE));
    }

    /** The grant that it has, with a hold more; or null in it where that was released meanwhile. Null where it has none. */
    private @Nullable CompletableFuture<@Nullable Ownership> enterAgain(LockSpec spec) {
        Ownership mine = held.get(spec.key());
        if (mine == null || names != null && mine.loss() != null) {
            return null;
        }
        CompletableFuture<@Nullable Ownership> entered = mine.enterAgain(spec);
        boolean isReleased = entered.isDone() && !entered.isCompletedExceptionally() && entered.join() == null;
        return isReleased ? null : entered;
    }

    private void answered(String key, Asking answered) {
        asking.remove(key, answered);
        answered.complete(null);
    }

    private Attempt anew(LockSpec spec, long wait, Caller caller, Asking answered) {
        Attempt attempt = scope.take(spec, owner, this, wait, caller);
        CompletableFuture<Ownership> result = attempt.result().whenComplete((grant, failure) -> {
            if (grant != null) {
                hold(grant);
            }
            answered(spec.key(), answered);
        });
        return attempt(result, reason -> {
            answered.isCalledOff = true;
            attempt.end().accept(reason);
        }, attempt.caller());
    }

    private void hold(Ownership grant) {
        held.put(grant.key(), grant);
        if (names != null && !grant.isHeld()) {
            forget(grant); // it was lost before it was told
        }
    }

    /** Takes over a grant in its name, which the call gives; behind another call for the same lock. */
    CompletableFuture<Ownership> adopt(LockSpec spec, long token, Supplier<CompletableFuture<Held>> call) {
        Asking answered = new Asking();
        Asking before = asking.putIfAbsent(spec.key(), answered);
        if (before != null) {
            return new Behind(scope, spec.key(), 0, left -> attempt(adopt(spec, token, call), reason -> { }, Caller.NONE))
                    .other(before).result();
        }
        Ownership mine = held.get(spec.key());
        CompletableFuture<@Nullable Ownership> entered = mine == null || mine.token() != token
                ? CompletableFuture.completedFuture(null) : mine.adoptAgain(spec);
        CompletableFuture<Ownership> adopted = entered.thenCompose(again -> again != null
                ? CompletableFuture.completedFuture(again) : call.get().thenApply(grant -> {
                    hold(grant);
                    return grant;
                }));
        return adopted.whenComplete((grant, failure) -> answered(spec.key(), answered));
    }

    private Attempt attempt(CompletableFuture<Ownership> result, Consumer<Throwable> end, Caller caller) {
        return new Attempt(result, end, scope, caller);
    }
}
