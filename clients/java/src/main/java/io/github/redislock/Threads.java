package io.github.redislock;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/** The tasks of threads: each thread is one owner for as long as it has a lock, or asks for one. */
final class Threads {
    private final Scope scope;
    private final Map<Long, Task> tasks = new ConcurrentHashMap<>();

    Threads(Scope scope) {
        this.scope = scope;
    }

    @SuppressWarnings("deprecation") // threadId() is of Java 19
    private static long id() {
        return Thread.currentThread().getId();
    }

    Task mine() {
        return tasks.computeIfAbsent(id(), id -> new Task(scope, () -> scope.freshOwner() + ":" + id));
    }

    @Nullable Ownership held(String key) {
        Task task = tasks.get(id());
        return task == null ? null : task.held(key);
    }

    /** Forgets a thread that has no lock. */
    void tidy() {
        Task task = tasks.get(id());
        if (task != null && task.isIdle()) {
            tasks.remove(id(), task);
        }
    }
}
