package io.github.redislock;

/**
 * The server does not let this client do it: no right, a wrong password, no memory, too many waiters, no module.
 *
 * @see LockException
 */
public final class LockRefusedException extends LockException {
    LockRefusedException(String message) {
        super(message);
    }
}
