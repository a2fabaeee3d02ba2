package io.github.redislock;

import java.util.Optional;

/**
 * Looks for the result of work that is done once: see {@link RedisLock#once}.
 *
 * @param <T> what is looked for
 * @param <X> what it may throw
 */
@FunctionalInterface
public interface Search<T, X extends Exception> {
    /** Gives the result, or nothing where it is not there yet. */
    Optional<T> look() throws X;
}
