package io.github.redislock;

import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Is notified of what happens, for metrics; no method may block. {@link #acquired} and {@link #released} are called by the
 * thread of the call, the others by a thread of the client. Keys have the client's prefix. An exception of a method is logged.
 *
 * <pre>{@code
 * LockObserver observer = new LockObserver() {
 *     public void acquired(String key, Duration took, Throwable error) {
 *         System.out.printf("%s: %d ms, %s%n", key, took.toMillis(), error == null ? "granted" : error);
 *     }
 * };
 * Locks locks = Locks.builder(new StandIn().server()).observer(observer).build();
 * }</pre>
 */
public interface LockObserver {
    /** An acquire has ended, after this time, its wait included; error is null if the lock was granted. */
    default void acquired(String key, Duration took, @Nullable Throwable error) {}

    /** A release has ended. The lock was held for this time; error is null if it was held to the end. */
    default void released(String key, Duration held, @Nullable Throwable error) {}

    /** A grant ended before its holder released it. */
    default void lost(String key, LockLostException error) {}

    /** The connection of the session at this server has broken; with null: it is back, or not needed any more. */
    default void connection(String server, @Nullable Throwable error) {}
}
