package programs;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import redislock.LockServer;
import redislock.LockServer.Refusal;

/**
 * A seat that is held by a user, for as long as the user has been promised: longer than any process.
 * So it speaks to the server itself: nothing renews the lock, and no process releases it by ending.
 */
final class Seat {
    private static final Set<String> LAPSED = Set.of("NOTHELD", "NOTOWNER", "FENCED");
    private static final String PAY = """
            redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
            redis.call('SET', KEYS[2], ARGV[2])
            """;

    private Seat() {}

    static Map<String, Object> run(Redis redis, Main.Options options) throws Exception {
        LockServer server = redis.server();
        String owner = "seat:" + options.text("user");
        try {
            switch (options.text("do")) {
                case "hold":
                    return hold(redis, owner, options.text("lease-ms"), options.number("wait-ms"));
                case "extend":
                    server.call("LOCK.RENEW", "lock:{seat}", owner,
                            "PX", options.text("lease-ms"), "TOKEN", options.text("token"));
                    return Map.of("seat", "extended");
                case "pay":
                    List<String> keys = List.of("lock:{seat}", "{seat}:paid");
                    if (!redis.write(PAY, keys, options.text("token"), options.text("user"))) {
                        return Map.of("seat", "lapsed");
                    }
                    release(server, owner, options.text("token"));
                    return Map.of("seat", "paid");
                default:
                    throw new Main.WrongArguments("hold, extend or pay");
            }
        } catch (Refusal e) {
            if (LAPSED.contains(e.word())) {
                return Map.of("seat", "lapsed");
            }
            throw e;
        }
    }

    /** Waits in line. A process that ends closes its connection, and with it leaves the queue. */
    private static Map<String, Object> hold(Redis redis, String owner, String leaseMs, long waitMs) throws Exception {
        LockServer server = redis.server();
        List<?> grant = server.call("LOCK.ACQUIRE", "lock:{seat}", owner, "PX", leaseMs, "HOLDS", "1");
        if (grant == null && waitMs > 0) {
            try (LockServer.Wait wait = server.wait(Duration.ofMillis(waitMs + 5000), "LOCK.ACQUIRE", "lock:{seat}",
                    owner, "PX", leaseMs, "HOLDS", "1", "BLOCK", "" + waitMs)) {
                grant = wait.answer().get();
            }
        }
        if (grant == null) {
            return Map.of("seat", "taken");
        }
        if (redis.exists("{seat}:paid")) {
            release(server, owner, grant.get(0).toString());
            return Map.of("seat", "sold");
        }
        return Map.of("seat", "held", "token", grant.get(0));
    }

    private static void release(LockServer server, String owner, String token) {
        try {
            server.call("LOCK.RELEASE", "lock:{seat}", owner, "ALL", "TOKEN", token);
        } catch (Refusal e) {
            if (!LAPSED.contains(e.word())) {
                throw e;
            }
        }
    }
}
