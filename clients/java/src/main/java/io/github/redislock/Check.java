package io.github.redislock;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Asks whether a kept grant is held: by a PING on the line on which it is kept. */
final class Check {
    private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(20);

    private final Core core;
    private final Held grant;
    private final CompletableFuture<@Nullable Void> result = new CompletableFuture<>();

    Check(Core core, Held grant) {
        this.core = core;
        this.grant = grant;
    }

    CompletableFuture<@Nullable Void> begin() {
        Future<?> over = core.after(core.settings().reply(), () -> result.completeExceptionally(
                Meaning.PASSING.error(grant.key(), null)));
        ping();
        return result.whenComplete((nothing, failure) -> over.cancel(false));
    }

    private void ping() {
        if (isSettled()) {
            return;
        }
        grant.keeper().line().thenCompose(Line::ping).whenComplete((answer, failure) -> {
            if (failure == null && answer.error() == null && answer.line() == grant.line()) {
                if (!isSettled()) {
                    result.complete(null);
                }
            } else {
                core.after(PAUSE, this::ping);
            }
        });
    }

    private boolean isSettled() {
        LockLostException lost = grant.loss();
        if (lost != null) {
            result.completeExceptionally(Ownership.again(lost));
        } else if (!grant.isHeld()) {
            result.completeExceptionally(new LockMisuseException(grant.key() + ": released already", null));
        }
        return result.isDone();
    }
}
