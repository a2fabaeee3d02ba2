package io.github.redislock;

/**
 * Waiting would create a deadlock cycle. Release what you hold, and begin again.
 *
 * @see LockException
 */
public final class LockDeadlockException extends LockException {
    LockDeadlockException(String message) {
        super(message);
    }
}
