/** What a client library of Redis has to give: connections to the servers that have the locks. */
@NullMarked
package io.github.redislock.spi;

import org.jspecify.annotations.NullMarked;
