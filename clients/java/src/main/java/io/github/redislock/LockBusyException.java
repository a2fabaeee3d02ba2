package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * Others hold the lock, or are in line for it, and the time to wait is over.
 *
 * @see LockException
 */
public final class LockBusyException extends LockException {
    LockBusyException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
