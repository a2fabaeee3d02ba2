package io.github.redislock;

import org.jspecify.annotations.Nullable;

/** To wait would close a circle of waits. Release what you hold, and begin again. */
public final class LockDeadlockException extends LockException {
    private static final long serialVersionUID = 1;

    LockDeadlockException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
