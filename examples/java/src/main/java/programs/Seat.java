package programs;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A seat that is held by a user, for as long as the user has been promised: longer than any process. So its lease is
 * fixed, and its owner is the user: no process renews the lock, or releases it by ending. That needs the commands alone.
 */
final class Seat {
    private static final String LOCK = "lock:{seat}";
    private static final String PAY = """
            redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
            redis.call('SET', KEYS[2], ARGV[2])
            """;

    private Seat() {}

    static Map<String, Object> run(Redis redis, Main.Options options) {
        String owner = "seat:" + options.text("user");
        try {
            switch (options.text("do")) {
                case "hold":
                    return hold(redis, owner, options);
                case "extend":
                    redis.lock("LOCK.RENEW", LOCK, owner, "PX", options.text("lease-ms"), "TOKEN", options.text("token"));
                    return Map.of("seat", "extended");
                case "pay":
                    List<String> keys = List.of(LOCK, "{seat}:paid");
                    if (!redis.write(PAY, keys, options.text("token"), options.text("user"))) {
                        return Map.of("seat", "lapsed");
                    }
                    release(redis, owner, options.text("token"));
                    return Map.of("seat", "paid");
                default:
                    throw new Main.WrongArguments("hold, extend or pay");
            }
        } catch (RuntimeException e) {
            if (isOver(e)) {
                return Map.of("seat", "lapsed");
            }
            throw e;
        }
    }

    private static boolean isOver(RuntimeException error) {
        return String.valueOf(error.getMessage()).matches("(?s)(NOTHELD|NOTOWNER|FENCED).*");
    }

    /** Waits in line. */
    private static Map<String, Object> hold(Redis redis, String owner, Main.Options options) {
        List<String> words = new ArrayList<>(List.of("LOCK.ACQUIRE", LOCK, owner, "PX", options.text("lease-ms"), "HOLDS", "1"));
        if (options.number("wait-ms") > 0) {
            words.addAll(List.of("BLOCK", options.text("wait-ms")));
        }
        Object reply = redis.lock(words.toArray(String[]::new));
        if (reply == null) {
            return Map.of("seat", "taken");
        }
        long token = (Long) ((List<?>) reply).get(0);
        if (redis.exists("{seat}:paid")) {
            release(redis, owner, String.valueOf(token));
            return Map.of("seat", "sold");
        }
        return Map.of("seat", "held", "token", token);
    }

    private static void release(Redis redis, String owner, String token) {
        try {
            redis.lock("LOCK.RELEASE", LOCK, owner, "ALL", "TOKEN", token);
        } catch (RuntimeException e) {
            if (!isOver(e)) { // it has been paid in time
                throw e;
            }
        }
    }
}
