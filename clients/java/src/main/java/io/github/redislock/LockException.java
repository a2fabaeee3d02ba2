package io.github.redislock;

import org.jspecify.annotations.Nullable;

/** What the errors of this client have in common. The cause is what the server or its driver said. */
public sealed class LockException extends RuntimeException
        permits LockBusyException, LockDeadlockException, LockLostException, LockMisuseException,
        LockNotAloneException, LockRefusedException, LockUnavailableException {
    LockException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
