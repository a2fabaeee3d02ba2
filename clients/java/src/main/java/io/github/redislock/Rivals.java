package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Meaning.Kind;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

/**
 * Tells which grants other connections than those of one keeper keep. They are not taken back: two that adopt the same
 * grant would take it from each other without end, and each time all that the other keeps loses its connection.
 */
final class Rivals {
    /** Why such a grant is lost. */
    static final String WHY = "another connection keeps it now";
    private static final int REMEMBERED = 100;

    /** The client ids of the keeper's connections, also of those that may not have ended for the server. */
    private final Set<Long> own = new LinkedHashSet<>();
    private long last;

    /** Asks who this new line is, before anything else is asked. */
    void greet(Line fresh) {
        fresh.greet(Words.of("CLIENT", "ID")).thenAccept(answer -> {
            if (answer.reply() instanceof Long id) {
                add(id);
            }
        });
    }

    private synchronized void add(long id) {
        if (id < last) {
            own.clear(); // a server that counts anew: they may be anybody's
        }
        last = id;
        own.add(id);
        if (own.size() > REMEMBERED) {
            Iterator<Long> oldest = own.iterator();
            oldest.next();
            oldest.remove();
        }
    }

    private synchronized boolean isOthers(long id) {
        return id != 0 && !own.isEmpty() && !own.contains(id);
    }

    /** Whether another keeps it. False where who asks must not know. Fails where that may pass, or the line has ended. */
    CompletableFuture<Boolean> keep(String key, Claim claim, Line on) {
        return keep(claim, on.call(look(key)));
    }

    static byte[][] look(String key) {
        return Words.of("LOCK.HOLDERS", key).bytes();
    }

    /** The same by the answer to that look. */
    CompletableFuture<Boolean> keep(Claim claim, CompletableFuture<Answer> looked) {
        return looked.thenApply(answer -> {
            if (answer.error() != null && Meaning.of(answer.error(), Kind.ACQUIRE) == Meaning.PASSING) {
                throw answer.error();
            }
            for (Map<String, Object> holder : Look.maps(answer.reply())) {
                if (isMeant(claim, holder)) {
                    return isOthers(Look.number(holder, "kept-by"));
                }
            }
            return false;
        });
    }

    private static boolean isMeant(Claim claim, Map<String, Object> holder) {
        return claim.token() != 0 ? Look.number(holder, "token") == claim.token()
                : holder.get("owner") instanceof byte[] name && claim.owner().equals(new String(name, StandardCharsets.UTF_8));
    }
}
