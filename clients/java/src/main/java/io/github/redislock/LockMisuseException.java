package io.github.redislock;

/**
 * The call cannot be right: wrong arguments, a key of another type, a closed client, a release without a hold.
 *
 * @see LockException
 */
public final class LockMisuseException extends LockException {
    LockMisuseException(String message) {
        super(message);
    }
}
