package io.github.redislock;

import io.github.redislock.Meaning.Kind;
import io.github.redislock.spi.ReplyError;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Calls that look at a lock from outside. They go by idle connections of those that wait. */
final class Look {
    private final Core core;

    Look(Core core) {
        this.core = core;
    }

    private @Nullable Object ask(String key, Words words) {
        return Attempt.await(core.keeper(key).thenCompose(keeper -> {
            WaitLines lines = core.waitLines(keeper.node());
            return lines.take().thenCompose(line -> line.call(words.bytes())
                    .whenComplete((answer, thrown) -> giveBack(lines, line, thrown == null ? answer.error() : null)));
        }).handle((answer, thrown) -> {
            Throwable failure = thrown != null ? Line.unwrapped(thrown) : answer.error();
            if (failure != null) {
                throw Meaning.of(failure, Kind.RENEW).error(key, failure);
            }
            return answer.reply();
        }));
    }

    /** Where another server has the lock, the next to ask is to find that one. */
    private void giveBack(WaitLines lines, Line line, @Nullable ReplyError error) {
        lines.giveBackAfter(line, error);
        if (error != null && error.getMessage().startsWith("MOVED")) {
            core.refresh();
        }
    }

    @Nullable Map<String, Object> info(String key) {
        return ask(key, Words.of("LOCK.INFO", key)) instanceof List<?> fields ? map(fields) : null;
    }

    boolean delete(String key) {
        return ask(key, Words.of("DEL", key)) instanceof Long number && number > 0;
    }

    List<Holder> holders(String key) {
        List<Holder> all = new ArrayList<>();
        for (Map<String, Object> fields : maps(ask(key, Words.of("LOCK.HOLDERS", key)))) {
            all.add(new Holder(new String((byte[]) fields.get("owner"), StandardCharsets.UTF_8),
                    number(fields, "token"), (int) number(fields, "holds"),
                    Duration.ofMillis(number(fields, "ttl-ms")), Duration.ofMillis(number(fields, "held-ms")),
                    (int) number(fields, "limit")));
        }
        return all;
    }

    /** The maps in a reply; none where it is no list. */
    static List<Map<String, Object>> maps(@Nullable Object reply) {
        return reply instanceof List<?> found ? found.stream().map(one -> map((List<?>) one)).toList() : List.of();
    }

    static long number(Map<String, Object> fields, String name) {
        return fields.get(name) instanceof Long number ? number : 0;
    }

    /** Jedis makes pairs of a map of RESP3; else names and values follow each other. */
    private static Map<String, Object> map(List<?> fields) {
        Map<String, Object> map = new HashMap<>();
        boolean isPairs = !fields.isEmpty() && fields.get(0) instanceof Map.Entry<?, ?>;
        for (int n = 0; n < fields.size(); n += isPairs ? 1 : 2) {
            Object name = isPairs ? ((Map.Entry<?, ?>) fields.get(n)).getKey() : fields.get(n);
            Object value = isPairs ? ((Map.Entry<?, ?>) fields.get(n)).getValue() : fields.get(n + 1);
            map.put(new String((byte[]) name, StandardCharsets.UTF_8), value);
        }
        return map;
    }
}
