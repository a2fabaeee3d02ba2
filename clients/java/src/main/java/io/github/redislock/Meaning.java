package io.github.redislock;

import io.github.redislock.spi.ReplyError;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** What an error reply means, for each kind of call. clients/protocol/errors.json says it for all clients. */
enum Meaning {
    LOST, MISUSE, NOT_ALONE, DEADLOCK, REFUSED, PASSING;

    /** What was asked for. */
    enum Kind { ACQUIRE, RENEW, RELEASE }

    private record Entry(String begins, Meaning acquire, Meaning renew, Meaning release) {
        Entry(String begins, Meaning all) {
            this(begins, all, all, all);
        }
    }

    /** The first that begins the reply counts. */
    private static final List<Entry> TABLE = List.of(
            new Entry("NOTHELD", LOST), new Entry("NOTOWNER", LOST), new Entry("FENCED", LOST),
            new Entry("WRONGTYPE", MISUSE, LOST, LOST),
            new Entry("NOTALONE", NOT_ALONE, NOT_ALONE, MISUSE),
            new Entry("DEADLOCK", DEADLOCK, MISUSE, MISUSE),
            new Entry("MAXWAITERS", REFUSED), new Entry("OOM", REFUSED), right("NOPERM"), right("NOAUTH"),
            right("WRONGPASS"), right("DENIED"), right("NOPROTO"), new Entry("AHEAD", REFUSED),
            new Entry("ERR unknown command", REFUSED), right("ERR invalid password"), right("ERR AUTH"),
            right("ERR Protocol error: unauthenticated"), new Entry("ERR KEEP needs the command CLIENT", REFUSED),
            new Entry("ERR no fencing token is left", REFUSED), right("ERR a fault inside the module"),
            new Entry("ERR max number of clients", PASSING),
            new Entry("ERR", MISUSE), new Entry("CROSSSLOT", MISUSE),
            new Entry("LOADING", PASSING), new Entry("BUSY", PASSING), new Entry("NOREPLICAS", PASSING),
            new Entry("MISCONF", PASSING), new Entry("READONLY", PASSING), new Entry("MASTERDOWN", PASSING),
            new Entry("UNBLOCKED", PASSING), new Entry("CLUSTERDOWN", PASSING), new Entry("TRYAGAIN", PASSING),
            new Entry("MOVED", PASSING), new Entry("ASK", PASSING), new Entry("REDIRECT", PASSING));

    /** Refused, but while a grant stands, what refuses its renewal may pass before the lease ends. */
    private static Entry right(String begins) {
        return new Entry(begins, REFUSED, PASSING, REFUSED);
    }

    /** Whether a server says that it is not the primary any more, or was none at that moment. */
    static boolean isOfReplica(String reply) {
        return reply.startsWith("READONLY") || reply.startsWith("MASTERDOWN") || reply.startsWith("UNBLOCKED");
    }

    static Meaning of(String reply, Kind kind) {
        for (Entry entry : TABLE) {
            if (reply.startsWith(entry.begins)) {
                return switch (kind) {
                    case ACQUIRE -> entry.acquire;
                    case RENEW -> entry.renew;
                    case RELEASE -> entry.release;
                };
            }
        }
        return MISUSE;
    }

    /** What a failure means: no answer passes, a refusal is told by its text, and anything else is a defect. */
    static Meaning of(Throwable failure, Kind kind) {
        return failure instanceof ReplyError reply ? of(reply.getMessage(), kind)
                : failure instanceof java.io.IOException ? PASSING : MISUSE;
    }

    /** The error for the caller. */
    LockException error(String key, @Nullable Throwable cause) {
        String text = key + ": " + (cause == null ? "no answer in time" : cause.getMessage());
        return switch (this) {
            case LOST -> new LockLostException(text, cause);
            case MISUSE -> new LockMisuseException(text, cause);
            case NOT_ALONE -> new LockNotAloneException(text, cause);
            case DEADLOCK -> new LockDeadlockException(text, cause);
            case REFUSED -> new LockRefusedException(
                    text.contains("unknown command") ? text + " (is the module lock loaded?)" : text, cause);
            case PASSING -> new LockUnavailableException(text, cause);
        };
    }
}
