package io.github.redislock;

import java.time.Duration;

/** Is told what happens, for metrics. Each method may be called by any thread, and must not block. */
public interface LockObserver {
    /** A lock was taken, after so long. */
    default void acquired(String key, Duration waited) {}

    /** A lock was not taken: the error says why; a cancelled call is a CancellationException. */
    default void refused(String key, Duration waited, Throwable why) {}

    /** A grant was released, after so long. */
    default void released(String key, Duration held) {}

    /** A grant was lost, after so long. */
    default void lost(String key, Duration held) {}

    /**
     * The connection on which grants are kept has ended. The node is empty where there is only one. Of servers that decide
     * together it is one that does not answer, and is left alone until it is opened again.
     */
    default void keeperEnded(String node, Throwable why) {}

    /** There is a connection again on which grants are kept, or that server answers again. */
    default void keeperOpened(String node) {}
}
