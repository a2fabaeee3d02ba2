/** Metrics of locks, by Micrometer. */
@NullMarked
package io.github.redislock.micrometer;

import org.jspecify.annotations.NullMarked;
