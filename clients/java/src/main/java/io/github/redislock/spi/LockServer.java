package io.github.redislock.spi;

import org.jspecify.annotations.Nullable;

/**
 * Where locks are: one server, or a cluster. The defaults are those of one server.
 *
 * @see ServerNode
 */
public interface LockServer {
    /**
     * Where a key is.
     *
     * @param node null if no node told
     * @param fault why, then
     */
    record Place(@Nullable ServerNode node, Fault fault) {}

    /** Whether a key may move from one node to another. */
    default boolean isCluster() {
        return false;
    }

    /** Finds the node that has the key, within this time in nanoseconds. It throws nothing: a failure is in the place. */
    Place find(String key, long limit);

    /** Where this reply leads; null: nowhere else. */
    default @Nullable ServerNode redirected(ServerNode from, Fault fault) {
        return null;
    }

    /** Has the map of the cluster read again before it is used. */
    default void refresh() {}

    /** Closes all connections but those for sessions, and what was derived from the user's client. */
    void close();
}
