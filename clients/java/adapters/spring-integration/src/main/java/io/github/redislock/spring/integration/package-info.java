/** Locks of Spring Integration on servers with the module redis-lock. */
@NullMarked
package io.github.redislock.spring.integration;

import org.jspecify.annotations.NullMarked;
