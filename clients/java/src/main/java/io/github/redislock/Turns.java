package io.github.redislock;

import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

/** One operation after the other, for holds that are added and given back by several threads of a task. */
final class Turns {
    private CompletableFuture<?> last = CompletableFuture.completedFuture(null);

    synchronized <T> CompletableFuture<T> take(Supplier<CompletableFuture<T>> operation) {
        CompletableFuture<T> next = last.isDone() ? operation.get()
                : last.handle((result, failure) -> operation).thenCompose(Supplier::get);
        last = next;
        return next;
    }
}
