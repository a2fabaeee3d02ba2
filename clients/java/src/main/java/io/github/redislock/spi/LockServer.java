package io.github.redislock.spi;

import org.jspecify.annotations.Nullable;

/** Where locks are: one server, or a cluster. */
public interface LockServer {
    /**
     * Where a key is.
     *
     * @param node null if no node told
     * @param fault why, then
     */
    record Place(@Nullable ServerNode node, @Nullable Fault fault) {}

    /** One server. */
    static LockServer of(ServerNode node) {
        Place place = new Place(node, null);
        return new LockServer() {
            @Override
            public boolean isCluster() {
                return false;
            }

            @Override
            public Place find(String key, long limit) {
                return place;
            }

            @Override
            public @Nullable ServerNode redirected(ServerNode from, Fault fault) {
                return null;
            }

            @Override
            public void refresh() {}

            @Override
            public void close() {
                node.close();
            }
        };
    }

    /** Whether a key may move from one node to another. */
    boolean isCluster();

    /** Finds the node that has the key, within this time in nanoseconds. */
    Place find(String key, long limit);

    /** Where this reply leads; null: nowhere else. */
    @Nullable ServerNode redirected(ServerNode from, Fault fault);

    /** Has the map of the cluster read again before it is used. */
    void refresh();

    /** Closes all connections but those for sessions, and what was derived from the user's client. */
    void close();
}
