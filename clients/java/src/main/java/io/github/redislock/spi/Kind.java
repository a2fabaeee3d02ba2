package io.github.redislock.spi;

/**
 * The meaning of an error to the caller. Each kind has an exception.
 *
 * @see io.github.redislock.LockException
 */
public enum Kind {
    /** Others hold the lock or wait for it. */
    BUSY,
    /** The grant ended before its holder released it. */
    LOST,
    /** Waiting would create a deadlock cycle. */
    DEADLOCK,
    /** The lock has more holders than the call allows. */
    NOT_ALONE,
    /** The server refuses: no right, no memory, no module. */
    REFUSED,
    /** There was no answer, or an error that passes. */
    UNAVAILABLE,
    /** Wrong arguments, another type of key, a closed client. */
    MISUSE
}
