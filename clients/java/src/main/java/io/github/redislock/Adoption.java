package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/** Takes over a grant that was taken by another process, or an earlier one. */
final class Adoption {
    private Adoption() {}

    static Held adopt(Core core, LockSpec spec, String owner, long token) {
        Words words = Words.of("LOCK.RENEW", spec.key(), owner, "TOKEN", token, "PX", spec.lease().toMillis());
        if (spec.keepMs() > 0) {
            words.and("KEEP", spec.keepMs());
        }
        Call call = new Call(core, spec.key(), Kind.RENEW, System.nanoTime() + core.settings().reply(), words);
        CompletableFuture<Held> adopted = call.start().thenApply((Answer answer) ->
                new Held(core, Objects.requireNonNull(core.keeperNow(spec.key())), spec, owner, answer, null, null));
        return Attempt.await(adopted);
    }
}
