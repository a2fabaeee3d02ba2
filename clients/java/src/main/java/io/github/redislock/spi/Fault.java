package io.github.redislock.spi;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * An error reply of the server, or a reply that did not come.
 *
 * @param kind what it means
 * @param word the first word of an error reply; empty without a reply
 * @param isSent without a reply: the server may have received the command, or may yet
 * @param text what the server or the network said
 * @param cause what the library threw, if it did
 */
public record Fault(Kind kind, String word, boolean isSent, String text, @Nullable Throwable cause) {
    private static final Map<Kind, List<String>> KINDS = Map.of(
            Kind.UNAVAILABLE, List.of("NOSESSION", "LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "MISCONF",
                    "UNBLOCKED", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "ERR max number of clients"),
            Kind.LOST, List.of("NOTHELD", "NOTOWNER", "FENCED"),
            Kind.DEADLOCK, List.of("DEADLOCK"),
            Kind.NOT_ALONE, List.of("NOTALONE"),
            Kind.REFUSED, List.of("NOPERM", "NOAUTH", "WRONGPASS", "DENIED", "NOPROTO", "OOM", "MAXWAITERS",
                    "MAXSESSIONS", "ERR unknown", "ERR AUTH", "ERR invalid password",
                    "ERR Protocol error: unauthenticated", "ERR no fencing token is left",
                    "ERR a fault inside the module"));
    private static final Map<String, String> HINTS = Map.of(
            "WRONGTYPE", ": this key is not a lock of the module: an old SET NX lock of this name?",
            "ERR unknown", ": is the module lock, 0.3 or later, loaded there?",
            "NOPERM", ": the user needs this command, LOCK.SESSION, and the key");

    /** An error reply with this text. */
    public static Fault reply(String text) {
        Kind kind = Kind.MISUSE;
        for (Map.Entry<Kind, List<String>> one : KINDS.entrySet()) {
            kind = one.getValue().stream().anyMatch(text::startsWith) ? one.getKey() : kind;
        }
        String hint = "";
        for (Map.Entry<String, String> one : HINTS.entrySet()) {
            hint = text.startsWith(one.getKey()) ? one.getValue() : hint;
        }
        return new Fault(kind, text.split(" ", 2)[0], false, text + hint, null);
    }

    /** No reply. isSent: the server may have received the command, or may yet. */
    public static Fault none(boolean isSent, String text, @Nullable Throwable cause) {
        return new Fault(Kind.UNAVAILABLE, "", isSent, text, cause);
    }

    /** The same, named by what the library threw and its first cause. */
    public static Fault none(boolean isSent, Throwable thrown) {
        Throwable first = thrown;
        while (first.getCause() != null || first.getSuppressed().length > 0) { // Jedis suppresses why it does not connect
            first = first.getCause() != null ? first.getCause() : first.getSuppressed()[0];
        }
        String text = String.valueOf(thrown.getMessage());
        return none(isSent, first == thrown ? text : text + ": " + first.getMessage(), thrown);
    }

    /** Whether the same command may succeed later. */
    public boolean isPassing() {
        return kind == Kind.UNAVAILABLE;
    }

    /** Whether the grant that the command was about is over. */
    public boolean isGone() {
        return kind == Kind.LOST || word.equals("WRONGTYPE");
    }

    /** Whether the key is at another node of the cluster. */
    public boolean redirects() {
        return word.equals("MOVED") || word.equals("ASK");
    }
}
