package io.github.redislock;

import io.github.redislock.spi.Kind;
import org.jspecify.annotations.Nullable;

/** What the errors of this client have in common. The cause is what the server or its driver said. */
public sealed class LockException extends RuntimeException
        permits LockBusyException, LockDeadlockException, LockLostException, LockMisuseException,
        LockNotAloneException, LockRefusedException, LockUnavailableException {
    Kind kind = Kind.MISUSE; // an error of the caller, unless Errors says otherwise

    LockException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
