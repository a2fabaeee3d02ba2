/** Real servers for the tests of the adapters. */
@NullMarked
package io.github.redislock.testbed;

import org.jspecify.annotations.NullMarked;
