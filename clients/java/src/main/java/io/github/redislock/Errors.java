package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import java.util.Objects;

/** The exception of each kind of failure. */
final class Errors {
    private Errors() {}

    static LockException of(String attempted, String key, Fault fault) {
        String text = attempted + " " + key + ": " + fault.text();
        Throwable cause = fault.cause();
        LockException error = switch (Objects.requireNonNull(fault.kind())) {
            case BUSY -> new LockBusyException(text, cause);
            case LOST -> new LockLostException(text, cause);
            case DEADLOCK -> new LockDeadlockException(text, cause);
            case NOT_ALONE -> new LockNotAloneException(text, cause);
            case REFUSED -> new LockRefusedException(text, cause);
            case UNAVAILABLE -> new LockUnavailableException(text, cause);
            case MISUSE -> new LockMisuseException(text, cause);
        };
        error.kind = fault.kind();
        return error;
    }

    static Kind kindOf(Throwable error) {
        return error instanceof LockException known ? known.kind : Kind.UNAVAILABLE;
    }

    static LockMisuseException misuse(String text) {
        return new LockMisuseException(text, null);
    }
}
