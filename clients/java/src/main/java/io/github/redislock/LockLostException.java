package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * The grant has ended otherwise than by its release: somebody else may have the lock. Stop the work under it.
 *
 * @see LockException
 */
public final class LockLostException extends LockException {
    LockLostException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
