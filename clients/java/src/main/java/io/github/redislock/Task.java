package io.github.redislock;

import io.github.redislock.state.OwnerOfTask;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * One owner for all locks of one piece of work: {@link RedisLock#by}. It enters a lock again that it holds, and the server
 * finds a deadlock among tasks. Pass it along with the work; never share it between two.
 */
public final class Task {
    final OwnerOfTask state = new OwnerOfTask(); // of the mutex
    private final Core core;
    private final Map<String, Grant> held = new HashMap<>(); // of the mutex

    Task(Core core) {
        this.core = core;
    }

    /** What it holds of a key. */
    @Nullable Grant grant(String key) {
        return core.atomically(() -> {
            Grant grant = held.get(key);
            return grant != null && grant.isOpen() ? grant : null;
        });
    }

    void remember(Grant grant) {
        core.atomically(() -> {
            held.values().removeIf(it -> !it.isOpen());
            return held.put(grant.key(), grant);
        });
    }
}
