/** Locks of several processes in Spring Boot, on the Redis that {@code spring.data.redis.*} names. */
@NullMarked
package io.github.redislock.spring.boot;

import org.jspecify.annotations.NullMarked;
