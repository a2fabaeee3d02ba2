package io.github.redislock;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * What is one owner to the server: it may take a lock again that it has, and a circle of waits of several tasks is found.
 * A {@link ThreadLock} has one for each thread; a task of your own goes along with work that changes threads.
 */
public final class Task {
    private final Scope scope;
    private final String owner;
    private final Map<String, Ownership> held = new ConcurrentHashMap<>();
    private final Set<String> asking = ConcurrentHashMap.newKeySet();

    Task(Scope scope, String owner) {
        this.scope = scope;
        this.owner = owner;
    }

    /** The name by which the server knows it; servers that decide together know each of its grants by a name of its own. */
    public String owner() {
        return owner;
    }

    @Nullable Ownership held(String key) {
        return held.get(key);
    }

    boolean isIdle() {
        return held.isEmpty() && asking.isEmpty();
    }

    void forget(Ownership grant) {
        held.remove(grant.key(), grant);
    }

    /** Takes a lock, or takes it again. */
    Attempt acquire(LockSpec spec, long wait, Caller caller) {
        Ownership mine = held.get(spec.key());
        if (mine != null) {
            long deadline = System.nanoTime() + scope.settings().reply();
            return attempt(mine.enterAgain(spec, deadline), reason -> { }, caller);
        }
        if (!asking.add(spec.key())) {
            return attempt(CompletableFuture.failedFuture(
                    new LockMisuseException(spec.key() + ": the task waits for it already", null)), reason -> { }, caller);
        }
        Attempt attempt = scope.take(spec, owner, this, wait, caller);
        CompletableFuture<Ownership> result = attempt.result().whenComplete((grant, failure) -> {
            if (grant != null) {
                held.put(spec.key(), grant);
            }
            asking.remove(spec.key());
        });
        return attempt(result, attempt.end(), attempt.caller());
    }

    private Attempt attempt(CompletableFuture<Ownership> result, Consumer<Throwable> end, Caller caller) {
        return new Attempt(result, end, scope, caller);
    }
}
