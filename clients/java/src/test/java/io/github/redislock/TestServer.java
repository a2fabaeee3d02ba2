package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.SafeEncoder;

/** A server with the module, or a proxy before one: what the tests ask of it. */
public final class TestServer {
    public final int port;
    private Connection connection;

    TestServer(int port) {
        this.port = port;
    }

    /** An order to the test bed that concerns this server. */
    public JsonObject order(String what) {
        return order(what, Map.of());
    }

    private JsonObject order(String what, Map<String, ?> how) {
        Map<String, Object> here = new HashMap<>(how);
        here.put("port", port);
        return TestServers.order(what, here);
    }

    /** Runs a command of words. */
    public Object run(String words) {
        try {
            return runOnce(words);
        } catch (JedisConnectionException e) {
            return runOnce(words); // a Sentinel closes connections
        }
    }

    private synchronized Object runOnce(String words) {
        String[] command = words.split(" ");
        try {
            if (connection == null || connection.isBroken()) {
                connection = new Connection(new HostAndPort("127.0.0.1", port));
            }
            CommandArguments arguments = new CommandArguments(() -> SafeEncoder.encode(command[0]));
            for (int i = 1; i < command.length; i++) {
                arguments.add((Object) command[i]); // which every version has
            }
            return SafeEncoder.encodeObject(connection.executeCommand(arguments));
        } catch (JedisDataException e) {
            throw new IllegalStateException(words + ": " + e.getMessage());
        }
    }

    /** A field of LOCK.INFO; null where the lock is free. */
    public Object info(String key, String field) {
        Object info = run("LOCK.INFO " + key);
        return info == null ? null : fields((List<?>) info).get(field);
    }

    /** The fields of LOCK.SESSION LIST, a map for each. */
    public List<Map<String, Object>> sessions() {
        return ((List<?>) run("LOCK.SESSION LIST")).stream().map(session -> fields((List<?>) session)).toList();
    }

    /** The fields of LOCK.WAITERS, a map for each. */
    public List<Map<String, Object>> waiters(String key) {
        return ((List<?>) run("LOCK.WAITERS " + key)).stream().map(waiter -> fields((List<?>) waiter)).toList();
    }

    private static Map<String, Object> fields(List<?> flat) {
        Map<String, Object> fields = new HashMap<>();
        for (int i = 0; i < flat.size(); i += 2) {
            fields.put((String) flat.get(i), flat.get(i + 1));
        }
        return fields;
    }

    /** Makes a user as the manual says. */
    public void addUser(String name) {
        order("user", Map.of("name", name));
    }

    /** How often a command has run. */
    public int calls(String command) {
        for (String line : ((String) run("INFO commandstats")).split("\r\n")) {
            String name = "cmdstat_" + command + ":calls=";
            if (line.startsWith(name)) {
                return Integer.parseInt(line.substring(name.length(), line.indexOf(',')));
            }
        }
        return 0;
    }

    public static void eventually(String what, BooleanSupplier holds) throws InterruptedException {
        within(Duration.ofSeconds(10), what, holds);
    }

    public static void within(Duration limit, String what, BooleanSupplier holds) throws InterruptedException {
        long begun = System.nanoTime();
        while (!holds.getAsBoolean()) {
            assertTrue(System.nanoTime() - begun < limit.toNanos(), "not within " + limit + ": " + what);
            Thread.sleep(5);
        }
    }
}
