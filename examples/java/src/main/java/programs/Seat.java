package programs;

import io.github.redislock.Grant;
import io.github.redislock.LockBusyException;
import io.github.redislock.LockLostException;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/**
 * A seat that is held by a user, for as long as the user has been promised: longer than any process. So its lease is
 * fixed: nothing renews the lock, and no process releases it by ending.
 */
final class Seat {
    private static final String LOCK = "lock:{seat}";
    private static final String PAY = """
            redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
            redis.call('SET', KEYS[2], ARGV[2])
            """;

    private Seat() {}

    static Map<String, Object> run(Redis redis, Main.Options options) throws Exception {
        String owner = "seat:" + options.text("user");
        try {
            switch (options.text("do")) {
                case "hold":
                    return hold(redis, owner, options);
                case "extend":
                    held(redis, owner, options.number("lease-ms"), options);
                    return Map.of("seat", "extended");
                case "pay":
                    List<String> keys = List.of(LOCK, "{seat}:paid");
                    if (!redis.write(PAY, keys, options.text("token"), options.text("user"))) {
                        return Map.of("seat", "lapsed");
                    }
                    release(held(redis, owner, 10_000, options));
                    return Map.of("seat", "paid");
                default:
                    throw new Main.WrongArguments("hold, extend or pay");
            }
        } catch (LockLostException e) {
            return Map.of("seat", "lapsed");
        }
    }

    /** Takes the hold over from the process that took it, with this lease from now on. */
    private static Grant held(Redis redis, String owner, long leaseMs, Main.Options options) {
        return redis.locks().lock(LOCK).fixed(Duration.ofMillis(leaseMs)).adopt(owner, options.number("token"));
    }

    /** Waits in line. */
    private static Map<String, Object> hold(Redis redis, String owner, Main.Options options) throws Exception {
        Grant grant;
        try {
            grant = redis.locks().lock(LOCK).owner(owner).fixed(Duration.ofMillis(options.number("lease-ms")))
                    .waiting(Duration.ofMillis(options.number("wait-ms"))).acquire();
        } catch (LockBusyException e) {
            return Map.of("seat", "taken");
        }
        if (redis.exists("{seat}:paid")) {
            release(grant);
            return Map.of("seat", "sold");
        }
        return Map.of("seat", "held", "token", grant.token());
    }

    private static void release(Grant grant) {
        try {
            grant.release();
        } catch (LockLostException e) {
            // It has been paid in time.
        }
    }
}
