package io.github.redislock;

import org.jspecify.annotations.Nullable;

/** The server could not be reached, or gave no answer, in time. */
public final class LockUnavailableException extends LockException {
    LockUnavailableException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
