package io.github.redislock;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** Several locks that were taken together, in the order of their names. Any thread may use them. */
public final class Grants implements AutoCloseable, Iterable<Grant> {
    private final List<Grant> all;

    Grants(List<Grant> all) {
        this.all = List.copyOf(all);
    }

    /** Each of them, in the order of their names. */
    public List<Grant> all() {
        return all;
    }

    /** The grant of this key. */
    public Grant of(String key) {
        return all.stream().filter(grant -> grant.key().equals(key)).findFirst()
                .orElseThrow(() -> new LockMisuseException(key + " is none of these locks", null));
    }

    @Override
    public Iterator<Grant> iterator() {
        return all.iterator();
    }

    /** Whether all are neither released nor told as lost. Asks nobody. */
    public boolean isHeld() {
        return all.stream().allMatch(Grant::isHeld);
    }

    /** Asks the servers whether all are still held, and throws {@link LockLostException} when one is not. */
    public void check() {
        Attempt.await(each(all, Grant::checkAsync));
    }

    /** Runs this once when the first of them is lost, by a thread of this client; at once where one is lost already. */
    public void onLost(Consumer<LockLostException> listener) {
        listen(listener);
    }

    /** The same, and gives what ends that. */
    Runnable listen(Consumer<LockLostException> listener) {
        AtomicBoolean isTold = new AtomicBoolean();
        List<Runnable> ends = all.stream().map(grant -> grant.listen(loss -> {
            if (isTold.compareAndSet(false, true)) {
                listener.accept(loss);
            }
        })).toList();
        return () -> ends.forEach(Runnable::run);
    }

    /** Gives all back, the last one first. What was wrong with one is thrown, when all have been given back. */
    public void release() {
        Attempt.await(releaseAsync());
    }

    /** As {@link #release}. */
    public CompletableFuture<@Nullable Void> releaseAsync() {
        return each(lastFirst(), Grant::releaseAsync);
    }

    /** As {@link #release}, of those that have not been released. */
    @Override
    public void close() {
        Attempt.await(each(lastFirst(), Grant::closeAsync));
    }

    private List<Grant> lastFirst() {
        List<Grant> reversed = new ArrayList<>(all);
        Collections.reverse(reversed);
        return reversed;
    }

    /** Does it with each, whatever becomes of the others. The first failure has the others with it. */
    private static CompletableFuture<@Nullable Void> each(List<Grant> grants,
            Function<Grant, CompletableFuture<@Nullable Void>> operation) {
        List<CompletableFuture<@Nullable Void>> calls = grants.stream().map(operation).toList();
        return CompletableFuture.allOf(calls.toArray(CompletableFuture<?>[]::new)).handle((nothing, failure) -> {
            RuntimeException first = null;
            for (CompletableFuture<?> call : calls) {
                Throwable fault = call.handle((done, thrown) -> thrown).join();
                if (fault == null) {
                    continue;
                }
                RuntimeException error = (RuntimeException) Line.unwrapped(fault);
                if (first == null) {
                    first = error;
                } else if (first != error) {
                    first.addSuppressed(error);
                }
            }
            if (first != null) {
                throw first;
            }
            return null;
        });
    }
}
