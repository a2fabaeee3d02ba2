package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * The server could not be reached, gave no answer in time, or only passing errors such as LOADING. The call may have
 * been carried out all the same.
 *
 * @see LockException
 */
public final class LockUnavailableException extends LockException {
    LockUnavailableException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
