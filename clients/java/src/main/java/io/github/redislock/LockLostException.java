package io.github.redislock;

/**
 * The grant ended before its holder released it: somebody else may have the lock. Stop the work under it.
 *
 * @see LockException
 */
public final class LockLostException extends LockException {
    LockLostException(String message) {
        super(message);
    }
}
