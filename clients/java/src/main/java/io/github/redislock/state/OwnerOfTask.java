package io.github.redislock.state;

import org.jspecify.annotations.Nullable;

/** The owner of a task. */
public final class OwnerOfTask {
    /** Null: the next acquire uses a fresh one. */
    public @Nullable String owner;
}
