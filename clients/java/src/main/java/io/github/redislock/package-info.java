/**
 * Locks on a Redis or Valkey server with the module redis-lock.
 *
 * <p>Begin with {@link io.github.redislock.Locks}. All errors are {@link io.github.redislock.LockException}s.
 */
@NullMarked
package io.github.redislock;

import org.jspecify.annotations.NullMarked;
