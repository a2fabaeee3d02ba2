package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * The server does not let this client do it: no right, a wrong password, no memory, too many waiters, no module.
 *
 * @see LockException
 */
public final class LockRefusedException extends LockException {
    LockRefusedException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
