package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * The lock has more holders than the call allows: two sharers that both want it exclusively would wait for each other.
 * Release it first, then acquire it.
 *
 * @see LockException
 */
public final class LockNotAloneException extends LockException {
    LockNotAloneException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
