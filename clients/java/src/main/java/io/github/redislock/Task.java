package io.github.redislock;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * One owner for all locks of one piece of work: {@link RedisLock#by}. It enters a lock again that it holds, and the server
 * finds a deadlock among tasks. Pass it along with the work; never share it between two.
 *
 * <pre>{@code
 * Task task = locks.task();
 * try (Grant order = locks.get("lock:orders:42").by(task).lock();
 *         Grant again = locks.get("lock:orders:42").by(task).lock()) { // would wait for itself without the task
 *     System.out.println(again.holds()); // 2
 * }
 * }</pre>
 */
public final class Task {
    private final Core core;
    // Of the mutex.
    private @Nullable String owner; // null: the next acquire uses a fresh one
    private final Map<String, Grant> grants = new HashMap<>();

    Task(Core core) {
        this.core = core;
    }

    /** The owner of the next acquire: a fresh one while a call in the name of the last one is unanswered. */
    String owner() {
        if (owner == null || core.state.isInUse(owner)) {
            owner = core.owner();
        }
        return owner;
    }

    void renounceOwner() {
        owner = null;
    }

    /** Its grant of a key: held, or lost and not given back as often as it was acquired. */
    @Nullable Grant grant(String key) {
        return core.atomically(() -> grants().get(key));
    }

    void remember(Grant grant) {
        core.atomically(() -> grants().put(grant.key(), grant));
    }

    /** What it has not given back. */
    Set<String> keys() {
        return core.atomically(() -> Set.copyOf(grants().keySet()));
    }

    private Map<String, Grant> grants() {
        grants.values().removeIf(Grant::isGivenBack);
        return grants;
    }
}
