package programs;

import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.List;
import java.util.OptionalLong;

/**
 * A way to sell the last seat in SQL: claim, then look, then sell under the claim. See docs/fencing.md.
 *
 * @param claiming changes no row for a token that is stale
 * @param free how many are free
 * @param selling the first changes no row when the claim does not stand any more
 */
record Sale(String name, Statement claiming, String free, List<Statement> selling) {
    record Statement(String text, Object... given) {
        /** How many rows it has changed. */
        int execute(Connection database) throws SQLException {
            try (PreparedStatement prepared = database.prepareStatement(text)) {
                for (int n = 0; n < given.length; n++) {
                    prepared.setObject(n + 1, given[n]);
                }
                return prepared.executeUpdate();
            }
        }
    }

    /** In one row that is there, in one that is not there yet, and in several tables. */
    static List<Sale> ways(String lock, long token, String buyer) {
        return List.of(
                new Sale("row",
                        new Statement("UPDATE seats SET fence = ? WHERE id = 42 AND fence <= ?", token, token),
                        "SELECT count(*) FROM seats WHERE id = 42 AND buyer IS NULL",
                        List.of(new Statement("UPDATE seats SET buyer = ? WHERE id = 42 AND fence = ?", buyer, token))),
                new Sale("new_row",
                        new Statement("""
                                INSERT INTO bookings (id, fence) VALUES (42, ?) ON CONFLICT (id)
                                DO UPDATE SET fence = excluded.fence WHERE bookings.fence <= excluded.fence
                                """, token),
                        "SELECT count(*) FROM bookings WHERE id = 42 AND buyer IS NULL",
                        List.of(new Statement("UPDATE bookings SET buyer = ? WHERE id = 42 AND fence = ?", buyer, token))),
                new Sale("tables",
                        new Statement("""
                                INSERT INTO fences (name, fence) VALUES (?, ?) ON CONFLICT (name)
                                DO UPDATE SET fence = excluded.fence WHERE fences.fence <= excluded.fence
                                """, lock, token),
                        "SELECT free FROM stock WHERE id = 42",
                        List.of(
                                new Statement("UPDATE fences SET fence = ? WHERE name = ? AND fence = ?", token, lock, token),
                                new Statement("UPDATE stock SET free = free - 1 WHERE id = 42"),
                                new Statement("INSERT INTO sales (buyer, token) VALUES (?, ?)", buyer, token))));
    }

    /** Claims, and only then looks how many are free; empty when the token is stale. */
    OptionalLong claim(Connection database) throws SQLException {
        if (claiming.execute(database) == 0) {
            return OptionalLong.empty();
        }
        try (PreparedStatement prepared = database.prepareStatement(free);
                ResultSet found = prepared.executeQuery()) {
            found.next();
            return OptionalLong.of(found.getLong(1));
        }
    }

    /** False when somebody has claimed it since. */
    boolean sell(Connection database) throws SQLException {
        boolean isDone = false;
        database.setAutoCommit(false);
        try {
            if (selling.get(0).execute(database) == 0) {
                return false;
            }
            for (Statement statement : selling.subList(1, selling.size())) {
                statement.execute(database);
            }
            database.commit();
            isDone = true;
            return true;
        } finally {
            if (!isDone) {
                database.rollback(); // setAutoCommit(true) would commit
            }
            database.setAutoCommit(true);
        }
    }

    static Connection open(String url) throws SQLException {
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
