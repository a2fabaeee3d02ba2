package io.github.redislock;

import io.github.redislock.Line.Answer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.jspecify.annotations.Nullable;

/** Asks how many replicas have what was granted: on the connection of the call, which so waits for nothing else. */
final class Replicas {
    private Replicas() {}

    /** Waits behind a call that was answered on this connection, which is given back. Fails where too few have it. */
    static CompletableFuture<@Nullable Void> acknowledge(LockSpec spec, Wait behind) {
        return behind.acknowledged(spec.replicas()).handle((answer, thrown) -> {
            behind.giveBack();
            long number = thrown == null && answer.reply() instanceof Long some ? some : 0;
            if (number < spec.replicas()) {
                throw new LockUnavailableException(spec.key() + ": " + number + " of " + spec.replicas()
                        + " replicas have it", thrown != null ? Line.unwrapped(thrown) : answer.error());
            }
            return null;
        });
    }

    /** The same for what was granted by the keeper, by the same call once more on a connection for that. */
    static CompletableFuture<@Nullable Void> acknowledge(Core core, LockSpec spec, Words call, long deadline) {
        CompletableFuture<@Nullable Void> told = new CompletableFuture<>();
        Future<?> limit = core.after(Math.max(0, deadline - System.nanoTime()),
                () -> told.completeExceptionally(Meaning.PASSING.error(spec.key(), null)));
        new Wait(core, spec.key(), spec.lease().toNanos() / 3).open()
                .thenCompose(wait -> wait.await(call, Caller.NONE).thenCompose((Answer answer) -> acknowledge(spec, wait)))
                .whenComplete((nothing, thrown) -> {
                    limit.cancel(false);
                    if (thrown == null) {
                        told.complete(null);
                    } else {
                        Throwable why = Line.unwrapped(thrown);
                        told.completeExceptionally(why instanceof LockException error ? error
                                : Meaning.PASSING.error(spec.key(), why));
                    }
                });
        return told;
    }
}
