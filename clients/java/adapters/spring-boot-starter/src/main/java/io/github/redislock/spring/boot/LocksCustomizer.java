package io.github.redislock.spring.boot;

import io.github.redislock.Locks;

/** A bean of this kind changes the settings of the locks before they are built. */
@FunctionalInterface
public interface LocksCustomizer {
    /** Called with the settings of {@code redis-lock.*}. */
    void customize(Locks.Builder builder);
}
