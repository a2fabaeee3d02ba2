package io.github.redislock;

/**
 * Others hold the lock, or are in line for it, and the time to wait is over.
 *
 * @see LockException
 */
public final class LockBusyException extends LockException {
    LockBusyException(String message) {
        super(message);
    }
}
