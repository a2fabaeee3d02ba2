package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * Work under a lock: see {@link RedisLock#call} and {@link RedisLock#lead}.
 *
 * @param <T> what it gives
 * @param <X> what it may throw
 * @see RedisLock
 */
@FunctionalInterface
public interface Work<T extends @Nullable Object, X extends Exception> {
    /** Does the work, and may look at its grant or hand on its token. */
    T run(Grant grant) throws X;
}
