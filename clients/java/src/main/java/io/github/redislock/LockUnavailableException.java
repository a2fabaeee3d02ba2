package io.github.redislock;

/**
 * The server could not be reached, gave no answer in time, or only passing errors such as LOADING. The call may have
 * been carried out all the same.
 *
 * @see LockException
 */
public final class LockUnavailableException extends LockException {
    LockUnavailableException(String message) {
        super(message);
    }
}
