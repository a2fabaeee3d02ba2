package programs;

import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import redislock.LockLostException;
import redislock.RedisLocks.RedisLock;

/** Writes without a look at its lock: what is written to has to see that it comes too late. */
final class Fence {
    private static final String SET_STATE = """
            redis.call('LOCK.FENCE', KEYS[1], ARGV[1])
            redis.call('SET', KEYS[2], ARGV[2])
            """;
    private static final String UPDATE = "UPDATE orders SET state = ?, fence = ? WHERE id = 42 AND fence <= ?";

    private Fence() {}

    static Map<String, Object> run(Redis redis, Main.Options options) throws Exception {
        String name = options.text("name");
        long workMs = options.number("work-ms");
        try (Connection database = open(options.text("sql"))) {
            RedisLock lock = redis.locks().get("lock:{order}");
            if (!lock.tryLock(60, TimeUnit.SECONDS)) {
                throw new TimeoutException("no lock");
            }
            long token = lock.token();
            Main.print(redis.locks(), Map.of("event", "held", "token", token));
            Thread.sleep(workMs);

            boolean inRedis = redis.write(SET_STATE, List.of("lock:{order}", "{order}:state"), token, name);
            boolean inSql;
            try (PreparedStatement update = database.prepareStatement(UPDATE)) {
                update.setString(1, name);
                update.setLong(2, token);
                update.setLong(3, token);
                inSql = update.executeUpdate() == 1;
            }
            try {
                lock.unlock();
            } catch (LockLostException e) {
                // That is what this program is about.
            }
            return Map.of("redis", inRedis ? "written" : "refused", "sql", inSql ? "written" : "refused");
        }
    }

    private static Connection open(String url) throws SQLException {
        if (url.startsWith("sqlite:")) {
            return DriverManager.getConnection("jdbc:" + url + "?busy_timeout=10000");
        }
        if (!url.startsWith("postgres://")) {
            throw new Main.WrongArguments("--sql takes sqlite: or postgres://");
        }
        URI at = URI.create(url);
        String[] user = at.getUserInfo().split(":", 2);
        return DriverManager.getConnection("jdbc:postgresql://" + at.getHost() + ":" + at.getPort() + at.getPath(),
                user[0], user.length > 1 ? user[1] : "");
    }
}
