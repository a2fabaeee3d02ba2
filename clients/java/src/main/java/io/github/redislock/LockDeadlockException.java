package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * Waiting would create a deadlock cycle. Release what you hold, and begin again.
 *
 * @see LockException
 */
public final class LockDeadlockException extends LockException {
    LockDeadlockException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
