package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * A command that is due.
 *
 * @param apply applies its answer, and returns why the call has failed, or {@link Fault#NONE}
 */
public record Call(String[] command, Function<Answer, Fault> apply) {
    /**
     * The answer to the last try of a call.
     *
     * @param from the server that was asked; null if none was known
     * @param sent when the last try was sent
     * @param reply of the last try
     * @param wasOpen whether an earlier try had no reply
     */
    public record Answer(@Nullable Node from, long sent, Reply reply, boolean wasOpen) {
        Fault fault() {
            return reply.fault();
        }

        boolean isGrant() {
            return Reply.list(reply.value()).size() > 3;
        }

        long token() {
            return Reply.number(Reply.list(reply.value()).get(0));
        }

        long lease() {
            return TimeUnit.MILLISECONDS.toNanos(Reply.number(Reply.list(reply.value()).get(3)));
        }
    }
}
