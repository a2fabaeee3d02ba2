package io.github.redislock;

/**
 * The lock has more holders than the call allows: two sharers that both want it exclusively would wait for each other.
 * Release it first, then acquire it.
 *
 * @see LockException
 */
public final class LockNotAloneException extends LockException {
    LockNotAloneException(String message) {
        super(message);
    }
}
