package io.github.redislock.spi;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The answer to one command: a value, or a fault.
 *
 * @param value a Long, a String, a List of values, or null
 * @param fault null if there is a value
 */
public record Reply(@Nullable Object value, @Nullable Fault fault) {
    /** A value. */
    public static Reply of(@Nullable Object value) {
        return new Reply(value, null);
    }

    /** A fault. */
    public static Reply of(Fault fault) {
        return new Reply(null, fault);
    }

    /** Whether the server may still carry out the command. */
    public boolean isOpen() {
        return fault != null && fault.isSent();
    }

    /** Whether the same command may succeed later. */
    public boolean isPassing() {
        return fault != null && fault.isPassing();
    }

    /** Whether the same command would get the same error again. */
    public boolean isLasting() {
        return fault != null && !fault.isPassing();
    }

    /** Whether the grant that the command was about is over. */
    public boolean isGone() {
        return fault != null && fault.isGone();
    }

    /** Whether the key is at another node of the cluster. */
    public boolean redirects() {
        return fault != null && fault.redirects();
    }

    /** Whether it is an error reply that begins with this word; empty: that there is no reply. */
    public boolean is(String word) {
        return fault != null && fault.word().equals(word);
    }

    /** A value as a list; empty if it is none. */
    @SuppressWarnings("unchecked")
    public static List<@Nullable Object> list(@Nullable Object value) {
        return value instanceof List<?> list ? (List<@Nullable Object>) list : List.of();
    }

    /** A value as a number; 0 if it is none. */
    public static long number(@Nullable Object value) {
        return value instanceof Long number ? number : 0;
    }

    /** A list of names and values. */
    public static Map<String, @Nullable Object> fields(@Nullable Object value) {
        List<@Nullable Object> list = list(value);
        Map<String, @Nullable Object> fields = new HashMap<>();
        for (int i = 0; i + 1 < list.size(); i += 2) {
            fields.put(String.valueOf(list.get(i)), list.get(i + 1));
        }
        return fields;
    }
}
