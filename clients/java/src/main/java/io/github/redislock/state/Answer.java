package io.github.redislock.state;

import io.github.redislock.spi.Reply;

/**
 * What became of a call about a grant.
 *
 * @param sent when the last try was sent
 * @param reply of the last try
 * @param wasOpen whether an earlier try had no reply
 */
public record Answer(long sent, Reply reply, boolean wasOpen) {}
