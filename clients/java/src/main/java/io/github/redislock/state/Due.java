package io.github.redislock.state;

import io.github.redislock.spi.Reply;

/** A command that is sent before a POLL, and what its reply changes. */
public record Due(String[] command, Apply apply) {
    /** Applies a reply. */
    @FunctionalInterface
    public interface Apply {
        /** Applies the reply to a command that was sent at this time. */
        void reply(long sent, Reply reply);
    }
}
