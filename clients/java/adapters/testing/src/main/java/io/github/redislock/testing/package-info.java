/** Real servers for the tests of the adapters. */
@NullMarked
package io.github.redislock.testing;

import org.jspecify.annotations.NullMarked;
