package examples;

import io.github.redislock.Grant;
import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;

/** A holder is suspended for longer than its lease. Its write comes too late, and PostgreSQL refuses it. */
public class Fenced {
    static final URI SERVER = URI.create(System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379"));
    static final String DATABASE = System.getenv().getOrDefault("JDBC_URL", "jdbc:postgresql://127.0.0.1/");

    static final String LATE = "too late, a newer holder has claimed the seat";

    /** Puts the token into the row, and then reads. A holder with a lower token cannot write from now on. */
    static String claim(Connection database, long token) throws SQLException {
        String claim = "UPDATE seats SET fence = ? WHERE id = 1 AND fence <= ?";
        try (PreparedStatement statement = database.prepareStatement(claim)) {
            statement.setLong(1, token);
            statement.setLong(2, token);
            if (statement.executeUpdate() == 0) {
                return LATE;
            }
        }
        try (Statement statement = database.createStatement();
                ResultSet seat = statement.executeQuery("SELECT buyer FROM seats WHERE id = 1")) {
            seat.next();
            return seat.getString(1) == null ? "free" : "taken";
        }
    }

    /** Writes, unless somebody else has claimed the seat since. */
    static String sell(Connection database, String buyer, long token) throws SQLException {
        String sell = "UPDATE seats SET buyer = ? WHERE id = 1 AND fence = ?";
        try (PreparedStatement statement = database.prepareStatement(sell)) {
            statement.setString(1, buyer);
            statement.setLong(2, token);
            return statement.executeUpdate() == 0 ? LATE : "sold";
        }
    }

    public static void main(String[] arguments) throws SQLException {
        try (Connection database = DriverManager.getConnection(DATABASE);
                Statement create = database.createStatement();
                Locks locks = Locks.of(JedisServer.of(SERVER.getHost(), SERVER.getPort()), "seats")) {
            create.execute("CREATE TABLE seats (id int, buyer text, fence bigint)");
            create.execute("INSERT INTO seats VALUES (1, NULL, 0)");

            Grant slow = locks.get("lock:seat:1").fixed(Duration.ofSeconds(1)).lock();
            System.out.println("slow: " + claim(database, slow.token()));
            // Here slow is suspended: its lease ends, and the next one gets the lock.
            try (Grant quick = locks.get("lock:seat:1").lock()) {
                System.out.println("quick: " + claim(database, quick.token()));
                System.out.println("quick: " + sell(database, "quick", quick.token()));
                System.out.println("slow: " + sell(database, "slow", slow.token()));
            }
        }
    }
}
