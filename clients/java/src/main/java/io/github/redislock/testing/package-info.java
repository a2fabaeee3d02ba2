/** A stand-in for unit tests. */
@NullMarked
package io.github.redislock.testing;

import org.jspecify.annotations.NullMarked;
