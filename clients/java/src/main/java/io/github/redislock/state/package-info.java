/**
 * Internal: what the client knows of sessions, waits, grants, calls under way and unfinished releases, and the rules by
 * which it changes. It has no I/O, threads or clock: replies and events go in with the time, and commands that are due
 * come out. Times are nanoseconds since a fixed moment on a monotonic clock.
 */
@NullMarked
package io.github.redislock.state;

import org.jspecify.annotations.NullMarked;
