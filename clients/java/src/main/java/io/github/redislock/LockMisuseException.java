package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * The call cannot be right: wrong arguments, a key of another type, a closed client, a release without a hold.
 *
 * @see LockException
 */
public final class LockMisuseException extends LockException {
    LockMisuseException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
