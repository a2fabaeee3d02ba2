package io.github.redislock;

import org.jspecify.annotations.Nullable;

/**
 * In whose name a lock is asked for.
 *
 * @param task whose name it is; null: that of one grant
 * @param isNamed whether the user has given it, or it is that of an adopted grant: others may use it too, and it comes back
 */
record Owner(String name, @Nullable Task task, boolean isNamed) {}
