package io.github.redislock;

import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** A call for a lock that is under way, and how to end it. */
record Attempt(CompletableFuture<Ownership> result, Consumer<Throwable> end, Executor executor, Caller caller) {
    /** Waits for it. An interrupt calls it off, and what came all the same is released. */
    Ownership get(boolean isInterruptible) throws InterruptedException {
        if (!isInterruptible) {
            return await(caller, result);
        }
        try {
            caller.read(() -> executor.execute(this::interrupt));
            return result.get();
        } catch (InterruptedException e) {
            interrupt();
            throw calledOff();
        } catch (ExecutionException e) {
            throw thrown(e.getCause());
        }
    }

    private void interrupt() {
        end.accept(new CancellationException("interrupted"));
    }

    private InterruptedException calledOff() {
        try {
            await(await(result).release());
        } catch (LockException | CancellationException e) {
            // It is called off, or lost, or free a lease later.
        }
        return new InterruptedException();
    }

    /** Waits for what ends in a bounded time. The interrupt flag is set again afterwards. */
    static <T> T await(CompletableFuture<T> future) {
        boolean interrupted = false;
        try {
            for (;;) {
                try {
                    return future.get();
                } catch (InterruptedException e) {
                    interrupted = true; // and the flag is not set now: the next wait is a wait
                } catch (ExecutionException e) {
                    throw thrown(e.getCause());
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** The same for a caller that may have something to read. */
    static <T> T await(Caller caller, CompletableFuture<T> future) {
        caller.read();
        return await(future);
    }

    /** An error of the family, with the place where it is told in its stack trace. */
    private static RuntimeException thrown(Throwable cause) {
        if (cause instanceof CancellationException cancelled) {
            return cancelled;
        }
        if (cause instanceof RuntimeException error) {
            error.setStackTrace(new Throwable().getStackTrace());
            return error;
        }
        if (cause instanceof Error error) {
            throw error;
        }
        return new IllegalStateException(cause);
    }
}
