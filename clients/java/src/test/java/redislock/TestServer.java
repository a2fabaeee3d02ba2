package redislock;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
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

/** A redis-server of its own for a test, with the module. */
final class TestServer implements AutoCloseable {
    final int port;
    final Process process;
    private final Path folder;
    private Connection connection;

    static TestServer start(String... settings) throws Exception {
        String module = System.getenv().getOrDefault("REDIS_LOCK_MODULE", "../../target/release/libredis_lock.so");
        List<String> arguments = new ArrayList<>(List.of("--loadmodule", new File(module).getCanonicalPath(),
                "--save", "", "--appendonly", "no"));
        arguments.addAll(List.of(settings));
        return launch(arguments);
    }

    /** A Sentinel that watches a primary, and has seen its replica. */
    static TestServer sentinelOf(TestServer primary) throws Exception {
        Path file = Files.createTempFile("sentinel", ".conf");
        Files.writeString(file, "sentinel monitor primary 127.0.0.1 " + primary.port + " 1\n"
                + "sentinel down-after-milliseconds primary 1000\n"
                + "sentinel failover-timeout primary 10000\n");
        TestServer sentinel = launch(List.of(file.toString(), "--sentinel"));
        eventually("the replica is known", () -> {
            List<?> replicas = (List<?>) sentinel.run("SENTINEL REPLICAS primary");
            return replicas.size() == 1 && replicas.toString().contains("flags, slave,");
        });
        return sentinel;
    }

    private static TestServer launch(List<String> arguments) throws Exception {
        for (int attempt = 0; attempt < 5; attempt++) { // another program may take the port first
            TestServer server = new TestServer(arguments);
            while (server.process.isAlive()) {
                try {
                    server.run("PING");
                    return server;
                } catch (JedisConnectionException e) {
                    Thread.sleep(20);
                }
            }
            server.close();
        }
        return fail("the server does not start");
    }

    private TestServer(List<String> arguments) throws IOException {
        port = freePort();
        folder = Files.createTempDirectory("redis-lock");
        List<String> command = new ArrayList<>(List.of(System.getenv().getOrDefault("REDIS_SERVER", "redis-server")));
        command.addAll(arguments);
        command.addAll(List.of("--port", "" + port, "--bind", "127.0.0.1", "--dir", folder.toString()));
        process = new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(folder.resolve("log").toFile()).start();
    }

    private static int freePort() throws IOException {
        for (;;) {
            try (ServerSocket socket = new ServerSocket(0)) {
                if (socket.getLocalPort() < 50000) { // the cluster bus takes port + 10000
                    return socket.getLocalPort();
                }
            }
        }
    }

    /** Runs a command of words. */
    Object run(String words) {
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
                arguments.add(command[i]);
            }
            return SafeEncoder.encodeObject(connection.executeCommand(arguments));
        } catch (JedisDataException e) {
            throw new IllegalStateException(words + ": " + e.getMessage());
        }
    }

    /** A field of LOCK.INFO; null where the lock is free. */
    Object info(String key, String field) {
        Object info = run("LOCK.INFO " + key);
        return info == null ? null : fields((List<?>) info).get(field);
    }

    /** The fields of LOCK.WAITERS, a map for each. */
    List<Map<String, Object>> waiters(String key) {
        return ((List<?>) run("LOCK.WAITERS " + key)).stream().map(waiter -> fields((List<?>) waiter)).toList();
    }

    private static Map<String, Object> fields(List<?> flat) {
        Map<String, Object> fields = new HashMap<>();
        for (int i = 0; i < flat.size(); i += 2) {
            fields.put((String) flat.get(i), flat.get(i + 1));
        }
        return fields;
    }

    /** Runs the lines {@code ACL SETUSER name ...} of the manual. */
    void addUser(String name) throws IOException {
        List<String> rules = Files.readAllLines(Path.of("../../docs/operations.md")).stream()
                .filter(line -> line.startsWith("ACL SETUSER " + name + " ")).toList();
        assertFalse(rules.isEmpty(), name);
        rules.forEach(this::run);
    }

    /** How often a command has run. */
    int calls(String command) {
        for (String line : ((String) run("INFO commandstats")).split("\r\n")) {
            String name = "cmdstat_" + command + ":calls=";
            if (line.startsWith(name)) {
                return Integer.parseInt(line.substring(name.length(), line.indexOf(',')));
            }
        }
        return 0;
    }

    void signal(String name) throws Exception {
        signal(process, name);
    }

    static void signal(Process process, String name) throws Exception {
        new ProcessBuilder("kill", "-" + name, "" + process.pid()).start().waitFor();
    }

    @Override
    public void close() throws Exception {
        process.destroyForcibly().waitFor();
        try (var files = Files.walk(folder)) {
            files.sorted(java.util.Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }

    static void eventually(String what, BooleanSupplier holds) throws InterruptedException {
        within(Duration.ofSeconds(10), what, holds);
    }

    static void within(Duration limit, String what, BooleanSupplier holds) throws InterruptedException {
        long begun = System.nanoTime();
        while (!holds.getAsBoolean()) {
            assertTrue(System.nanoTime() - begun < limit.toNanos(), "not within " + limit + ": " + what);
            Thread.sleep(5);
        }
    }
}
