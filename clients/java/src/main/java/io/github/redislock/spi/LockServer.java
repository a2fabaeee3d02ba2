package io.github.redislock.spi;

import java.io.IOException;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** One server, a primary with its replicas, or a cluster: where locks are, and how to connect there. */
public interface LockServer {
    /** Tells it from other servers, and names it in errors, such as {@code redis:6379}; empty where that is not known. */
    default String name() {
        return "";
    }

    /** Names the node that serves this key, by what is known now; null where that is not known yet. */
    @Nullable String node(String key);

    /** Asks anew which node serves which key. May block for about this long. */
    void refresh(Duration limit) throws IOException;

    /**
     * Connects to a node, ready for commands. May block for about this long. A refusal is a {@link ReplyError}, all
     * that may pass by itself an IOException; any other exception is told to the caller at once.
     */
    ServerConnection connect(String node, Duration limit) throws IOException;

    /** Gives back what this object itself has opened. The user's client stays as it is. */
    void close();
}
