package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import java.util.concurrent.CompletableFuture;

/** Takes over a grant that was taken by another process, or an earlier one. */
final class Adoption {
    private Adoption() {}

    static CompletableFuture<Held> adopt(Core core, LockSpec spec, Owner owner, long token) {
        Words words = Words.of("LOCK.RENEW", spec.key(), owner.name(), "TOKEN", token, "PX", spec.lease().toMillis());
        if (spec.keepMs() > 0) {
            words.and("KEEP", spec.keepMs());
        }
        Call call = new Call(core, spec.key(), Kind.RENEW, System.nanoTime() + core.settings().reply(), words);
        return call.start().whenComplete((answer, failure) -> {
            if (failure != null && spec.keepMs() > 0 && call.wasSent()
                    && Line.unwrapped(failure) instanceof LockUnavailableException) {
                keepNoMore(call, spec.key(), owner.name(), token);
            }
        }).thenApply((Answer answer) -> {
            Held held = new Held(core, core.keeperOf(spec.key(), answer), spec, owner, answer, null);
            if (core.isClosed()) { // and did not know of it
                held.close();
                throw Core.closedError();
            }
            return held;
        });
    }

    /**
     * The server may keep it here for nobody. It is another's still: it is not released. Sent once, before whatever is
     * asked for next, so that it comes behind no later adoption. Where the connection has ended, so has its keeping, and
     * another may keep it by now.
     */
    private static void keepNoMore(Call adoption, String key, String owner, long token) {
        Line on = adoption.line();
        if (on != null && on.isOpen()) {
            on.call(Words.of("LOCK.RENEW", key, owner, "TOKEN", token, "KEEP", 0).bytes());
        }
    }
}
