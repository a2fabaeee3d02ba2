package io.github.redislock.spi;

import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Why a call has failed: an error reply of the server, a reply that did not come, or what this client finds.
 *
 * @param kind what it means; null only for {@link #NONE}
 * @param word the first word of an error reply; else empty
 * @param isSent without a reply: the server may have received the command, or may yet
 * @param text what the server or the network said
 * @param cause what the library threw, if it did
 * @see ServerNode
 */
public record Fault(@Nullable Kind kind, String word, boolean isSent, String text, @Nullable Throwable cause) {
    /** No fault: the reply is a value. */
    public static final Fault NONE = new Fault(null, "", false, "", null);

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
            "NOPERM", ": the user needs permission for this command, LOCK.SESSION and the key");

    /** A fault that this client finds by itself. */
    public static Fault of(Kind kind, String text) {
        return new Fault(kind, "", false, text, null);
    }

    /** An error reply with this text. */
    public static Fault reply(String text) {
        Kind kind = KINDS.entrySet().stream().filter(one -> one.getValue().stream().anyMatch(text::startsWith))
                .map(Map.Entry::getKey).findFirst().orElse(Kind.MISUSE);
        String hint = HINTS.entrySet().stream().filter(one -> text.startsWith(one.getKey()))
                .map(Map.Entry::getValue).findFirst().orElse("");
        return new Fault(kind, text.split(" ", 2)[0], false, text + hint, null);
    }

    /** No reply. isSent: the server may have received the command, or may yet. */
    public static Fault none(boolean isSent, String text) {
        return new Fault(Kind.UNAVAILABLE, "", isSent, text, null);
    }

    /** The same, named by what the library threw and its first cause. */
    public static Fault none(boolean isSent, Throwable thrown) {
        Throwable first = thrown;
        while (first.getCause() != null || first.getSuppressed().length > 0) { // Jedis suppresses why it does not connect
            first = first.getCause() != null ? first.getCause() : first.getSuppressed()[0];
        }
        String text = thrown.getMessage() + (first == thrown ? "" : ": " + first.getMessage());
        return new Fault(Kind.UNAVAILABLE, "", isSent, text, thrown);
    }

    /** The same, naming the server. */
    public Fault at(String server) {
        return this == NONE ? this : new Fault(kind, word, isSent, server + ": " + text, cause);
    }

    /** Whether there was no reply. */
    public boolean isSilence() {
        return kind == Kind.UNAVAILABLE && word.isEmpty();
    }

    /** Whether the same command may succeed later. */
    public boolean isPassing() {
        return kind == Kind.UNAVAILABLE;
    }

    /** Whether the same command would get the same error again. */
    public boolean isLasting() {
        return kind != null && kind != Kind.UNAVAILABLE;
    }

    /** Whether the grant that the command was about is over. */
    public boolean isGone() {
        return kind == Kind.LOST || is("WRONGTYPE");
    }

    /** Whether the key is at another node of the cluster. */
    public boolean redirects() {
        return is("MOVED") || is("ASK");
    }

    /** Whether it is an error reply that begins with this word. */
    public boolean is(String first) {
        return word.equals(first);
    }
}
