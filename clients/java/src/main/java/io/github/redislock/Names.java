package io.github.redislock;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The owners that the user has named, and those of adopted grants: each is a task for as long as it has a lock, or asks
 * for one, so that its holds of one lock are counted.
 */
final class Names {
    private final Core core;
    private final Map<String, Task> tasks = new ConcurrentHashMap<>();

    Names(Core core) {
        this.core = core;
    }

    /** Takes a lock, or takes it again. */
    Attempt acquire(String name, LockSpec spec, long wait, Caller caller) {
        Task task = enter(name);
        Attempt attempt;
        try {
            attempt = task.acquire(spec, wait, caller);
        } catch (RuntimeException e) {
            leave(task);
            throw e;
        }
        CompletableFuture<Ownership> result = attempt.result().whenComplete((grant, failure) -> leave(task));
        return new Attempt(result, attempt.end(), core, attempt.caller());
    }

    /** Takes over what was taken in this name; where this client has it already, it is held once more. */
    CompletableFuture<Ownership> adopt(String name, LockSpec spec, long token) {
        Task task = enter(name);
        return task.adopt(spec, token, () -> Adoption.adopt(core, spec, new Owner(name, task, true), token))
                .whenComplete((grant, failure) -> leave(task));
    }

    private Task enter(String name) {
        return tasks.compute(name, (same, known) -> {
            Task task = known != null ? known : new Task(core, () -> name, this);
            task.calls++;
            return task;
        });
    }

    private void leave(Task task) {
        tasks.computeIfPresent(task.owner(), (name, known) -> {
            task.calls--;
            return task.calls == 0 && task.isIdle() ? null : known;
        });
    }

    /** Forgets it where it has nothing any more. */
    void tidy(Task task) {
        tasks.computeIfPresent(task.owner(), (name, known) -> known == task && task.calls == 0 && task.isIdle() ? null : known);
    }

    int size() {
        return tasks.size();
    }
}
