/** Locks of ShedLock on servers with the module redis-lock. */
@NullMarked
package io.github.redislock.shedlock;

import org.jspecify.annotations.NullMarked;
