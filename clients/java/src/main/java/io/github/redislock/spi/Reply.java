package io.github.redislock.spi;

import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The answer to one command: a value, or a fault.
 *
 * @param value a Long, a String, a List of values, or null
 * @param fault {@link Fault#NONE} if there is a value
 * @see ServerNode
 */
public record Reply(@Nullable Object value, Fault fault) {
    /** A value. */
    public static Reply of(@Nullable Object value) {
        return new Reply(value, Fault.NONE);
    }

    /** A fault. */
    public static Reply of(Fault fault) {
        return new Reply(null, fault);
    }

    /** Whether there is no value, not even null. */
    public boolean isFault() {
        return fault != Fault.NONE;
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

    /** A map, as a list of entries or of names and values. */
    public static Map<String, @Nullable Object> fields(@Nullable Object value) {
        Map<String, @Nullable Object> fields = new HashMap<>();
        for (Iterator<@Nullable Object> all = list(value).iterator(); all.hasNext();) {
            Object one = all.next();
            if (one instanceof Map.Entry<?, ?> entry) {
                fields.put(String.valueOf(entry.getKey()), entry.getValue());
            } else {
                fields.put(String.valueOf(one), all.hasNext() ? all.next() : null);
            }
        }
        return fields;
    }
}
