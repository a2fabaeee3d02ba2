package io.github.redislock;

import io.github.redislock.Line.Answer;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/** Where a grant is kept, as far as that was asked for. What keeps it no more is never overtaken by what keeps it. */
final class Keeping {
    private final Held grant;
    private volatile Line line;
    private @Nullable CompletableFuture<Answer> renewal;

    /** The line of its grant. */
    Keeping(Held grant, Line line) {
        this.grant = grant;
        this.line = line;
    }

    /** Where it was asked last to be kept, and so may be. */
    Line line() {
        return line;
    }

    /** Asks for it to be kept on this line. Where it is not to be kept any more, nothing is sent or answered. */
    CompletableFuture<Answer> renewOn(Line on) {
        CompletableFuture<Answer> asked = new CompletableFuture<>();
        synchronized (this) {
            if (!grant.isKept()) {
                return asked;
            }
            line = on;
            renewal = asked;
        }
        on.call(grant.renewal().bytes()).whenComplete((answer, thrown) -> {
            if (thrown == null) {
                asked.complete(answer);
            } else {
                asked.completeExceptionally(thrown);
            }
        });
        return asked;
    }

    /** Sends what keeps it no more, when a renewal that is under way has been answered. */
    CompletableFuture<Answer> end(Call last) {
        CompletableFuture<Answer> asked;
        synchronized (this) {
            asked = renewal;
        }
        return asked == null ? last.start() : asked.handle((answer, failure) -> last).thenCompose(Call::start);
    }
}
