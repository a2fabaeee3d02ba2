package io.github.redislock.spi;

import java.util.List;

/**
 * A connection of its own to one server, for one thread.
 *
 * @see ServerNode
 */
public interface ServerConnection {
    /**
     * Sends commands in one piece, and returns a reply to each; all are answered within this time in nanoseconds. It
     * connects if it is not connected. After a command without a reply the connection is closed. It throws nothing: a failure
     * is a {@link Fault}.
     */
    List<Reply> send(long limit, List<String[]> commands);

    /** Closes the connection, also while another thread waits for a reply of it. */
    void close();
}
