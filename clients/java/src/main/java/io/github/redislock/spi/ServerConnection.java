package io.github.redislock.spi;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * One connection to one server. Commands are sent in the order of the calls, and their replies come in that order.
 * It never reconnects and never repeats a command.
 */
public interface ServerConnection {
    /**
     * Sends a command. Its reply is a Long, a byte[], a List of replies, or null; an error of the server's is a
     * {@link ReplyError}; any other failure means that the connection has ended. It is completed by whatever thread
     * reads the connection, in the order of the replies.
     */
    CompletableFuture<@Nullable Object> send(byte[]... words);

    /**
     * The same for a caller that waits for the reply by {@link #read} at once. Where nobody reads it otherwise, the
     * reply comes then.
     */
    default CompletableFuture<@Nullable Object> sendUnread(byte[]... words) {
        return send(words);
    }

    /** Reads the connection in this thread until this is done, unless another thread reads it. */
    default void read(CompletableFuture<?> reply) {}

    /** Whether its end has to be noticed also while it owes no reply. Until this is called, it need not be. */
    default void watch(boolean isWatched) {}

    /** Sends words and waits for the reply, for so long at most. */
    default @Nullable Object ask(Duration limit, String... words) throws IOException {
        byte[][] bytes = new byte[words.length][];
        for (int n = 0; n < words.length; n++) {
            bytes[n] = words[n].getBytes(StandardCharsets.UTF_8);
        }
        try {
            return send(bytes).get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof ReplyError refusal) {
                throw refusal;
            }
            throw new IOException(e.getCause());
        } catch (TimeoutException e) {
            throw new IOException("no answer to " + words[0], e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException(e);
        }
    }

    /** Is completed, in any way, after the last reply, when the end of the connection has been noticed. */
    CompletionStage<?> ended();

    /** Ends the connection, without a command, at once. */
    void close();
}
