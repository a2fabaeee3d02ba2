package io.github.redislock;

import java.time.Duration;

/**
 * One of those who hold a lock.
 *
 * @param owner its name
 * @param token its fencing token
 * @param holds how often it has taken the lock
 * @param remaining how long its lease lasts if nobody renews it
 * @param held how long it has held the lock
 * @param limit how many holders it bears at once, itself included; 0: any number
 */
public record Holder(String owner, long token, int holds, Duration remaining, Duration held, int limit) {}
