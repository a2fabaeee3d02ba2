package io.github.redislock;

/**
 * The grant has ended otherwise than by its release: somebody else may have the lock. Stop the work under it.
 *
 * @see LockException
 */
public final class LockLostException extends LockException {
    LockLostException(String message) {
        super(message);
    }
}
