package io.github.redislock.spi;

import java.util.List;

/** One server. */
public interface ServerNode extends LockServer {
    /** Its name in messages; of a node of a cluster {@code host:port}. */
    String address();

    /**
     * Sends commands in one piece, once, and returns a reply to each; all are answered within this time in nanoseconds.
     * Any number of threads may call; none waits for a thread of another caller.
     */
    List<Reply> call(long limit, List<String[]> commands);

    /** A connection for a session. It is not of a pool. */
    ServerConnection connection();

    /** All keys are here. */
    @Override
    default Place find(String key, long limit) {
        return new Place(this, Fault.NONE);
    }
}
