package io.github.redislock.testbed;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.util.SafeEncoder;

/** A server with the module, started by {@code testbed serve} (crates/testing/testbed/src/bin/testbed/serve.rs). */
public final class TestServer implements AutoCloseable {
    private static final Process PROCESS = process();
    private static final PrintWriter ORDERS = new PrintWriter(PROCESS.outputWriter(), true);
    private static final Scanner ANSWERS = new Scanner(PROCESS.getInputStream());

    public final int port;
    private @Nullable Connection connection;

    private TestServer(int port) {
        this.port = port;
    }

    private static Process process() {
        try {
            String program = System.getenv().getOrDefault("TESTBED", "cargo run --quiet --package testbed --");
            List<String> command = new ArrayList<>(List.of(program.split(" ")));
            command.add("serve");
            return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static synchronized JsonObject order(String what, Map<String, ?> how) {
        Map<String, Object> order = new HashMap<>(how);
        order.put("do", what);
        ORDERS.println(new Gson().toJson(order));
        JsonObject answer = new Gson().fromJson(ANSWERS.nextLine(), JsonObject.class);
        assertThat(answer.has("error")).as(order + ": " + answer).isFalse();
        return answer;
    }

    /** Starts a server, a cluster (its nodes), or Sentinels (the primary, the replicas, the Sentinels). */
    public static List<TestServer> start(String what, Map<String, ?> how) {
        JsonObject answer = order(what, how);
        List<JsonElement> all = new ArrayList<>();
        for (String kind : List.of("nodes", "servers", "sentinels")) {
            all.addAll(answer.has(kind) ? answer.getAsJsonArray(kind).asList() : List.of());
        }
        return (all.isEmpty() ? List.of(answer) : all).stream()
                .map(one -> new TestServer(one.getAsJsonObject().get("port").getAsInt())).toList();
    }

    /** Starts one server. */
    public static TestServer start() {
        return start("server", Map.of()).get(0);
    }

    /** Carries out an order that concerns this server. */
    public void order(String what) {
        order(what, Map.of("port", port));
    }

    /** Makes a user as the manual says; its password is "secret". */
    public void addUser(String name) {
        order("user", Map.of("port", port, "name", name));
    }

    /** Ends all that was started with it. */
    @Override
    public void close() {
        order("end");
    }

    /** Runs a command of words. */
    public @Nullable Object run(String words) {
        try {
            return runOnce(words.split(" "));
        } catch (JedisConnectionException e) {
            return runOnce(words.split(" ")); // a Sentinel closes connections
        }
    }

    private synchronized @Nullable Object runOnce(String[] words) {
        if (connection == null || connection.isBroken()) {
            connection = new Connection(new HostAndPort("127.0.0.1", port));
        }
        CommandArguments command = new CommandArguments(() -> SafeEncoder.encode(words[0]));
        for (int i = 1; i < words.length; i++) {
            command.add((Object) words[i]); // which every version has
        }
        return SafeEncoder.encodeObject(connection.executeCommand(command));
    }

    /** Whether a key exists. */
    public boolean has(String key) {
        return Long.valueOf(1).equals(run("EXISTS " + key));
    }

    /** A field of LOCK.INFO; null if the lock is free. */
    public @Nullable Object info(String key, String field) {
        List<?> info = (List<?>) run("LOCK.INFO " + key);
        return info == null ? null : info.get(info.indexOf(field) + 1);
    }

    /** How many wait for a lock. */
    public int waiters(String key) {
        return ((List<?>) run("LOCK.WAITERS " + key)).size();
    }

    /** How often a command has run. */
    public int calls(String command) {
        String name = "cmdstat_" + command + ":calls=";
        return ((String) run("INFO commandstats")).lines().filter(line -> line.startsWith(name))
                .mapToInt(line -> Integer.parseInt(line.substring(name.length(), line.indexOf(',')))).sum();
    }

    /** Waits until something holds. */
    public static void eventually(String what, BooleanSupplier holds) throws InterruptedException {
        long end = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (!holds.getAsBoolean()) {
            assertThat(System.nanoTime()).as("not in time: " + what).isLessThan(end);
            Thread.sleep(5);
        }
    }

    /** Works in a thread of its own. */
    public static <T> FutureTask<T> inThread(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }
}
