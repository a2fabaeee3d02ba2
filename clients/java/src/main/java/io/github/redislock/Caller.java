package io.github.redislock;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ForkJoinWorkerThread;
import org.jspecify.annotations.Nullable;

/**
 * A thread that calls and waits for the outcome. The connection whose reply it waits for is read by it, and so no other
 * thread has to wake it.
 */
final class Caller {
    /** Nobody waits, or by other means. */
    static final Caller NONE = new Caller(null);

    /** Of Java 21: an interrupt closes the socket that a virtual thread reads. */
    private static final @Nullable MethodHandle IS_VIRTUAL = isVirtual();

    private final @Nullable Thread thread;
    private @Nullable Line line;
    private @Nullable CompletableFuture<?> reply;

    private Caller(@Nullable Thread thread) {
        this.thread = thread;
    }

    /** The thread that runs this. In a pool of those that fork and join it waits by other means, for which that makes up. */
    static Caller here() {
        Thread thread = Thread.currentThread();
        return isVirtual(thread) || thread instanceof ForkJoinWorkerThread ? NONE : new Caller(thread);
    }

    private static @Nullable MethodHandle isVirtual() {
        try {
            return MethodHandles.publicLookup().findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
        } catch (ReflectiveOperationException e) {
            return null; // an older Java has none
        }
    }

    private static boolean isVirtual(Thread thread) {
        try {
            return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(thread);
        } catch (Throwable e) {
            throw new IllegalStateException(e);
        }
    }

    /** Whether this thread sends something just now whose reply it can read. */
    boolean isFree() {
        return thread == Thread.currentThread() && line == null;
    }

    /** What it reads next. */
    void waitsFor(CompletableFuture<?> next, Line on) {
        reply = next;
        line = on;
    }

    /** Reads what it waits for. An interrupt changes nothing. */
    void read() {
        while (line != null) {
            Line from = line;
            line = null;
            from.read(reply);
        }
    }

    /** The same, but at an interrupt this is run, by whatever thread, which is to end what it waits for. */
    void read(Runnable onInterrupt) throws InterruptedException {
        if (line == null) {
            return;
        }
        Interruption interruption = new Interruption(onInterrupt);
        interruption.start();
        try {
            read();
        } finally {
            interruption.stop();
        }
    }

    /** The JDK's way to be told that a blocked thread is interrupted. */
    private static final class Interruption extends AbstractInterruptibleChannel {
        private final Runnable onInterrupt;

        Interruption(Runnable onInterrupt) {
            this.onInterrupt = onInterrupt;
        }

        void start() {
            begin();
        }

        void stop() throws InterruptedException {
            try {
                end(true);
            } catch (AsynchronousCloseException e) {
                Thread.interrupted();
                throw new InterruptedException();
            }
        }

        @Override
        protected void implCloseChannel() {
            onInterrupt.run();
        }
    }
}
