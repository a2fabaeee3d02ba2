package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertFalse;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;

/**
 * Servers and proxies, for the tests of the client and of its adapters, by {@code testbed serve}
 * (crates/testing/testbed/src/bin/testbed/serve.rs).
 */
public final class TestServers {
    private static final Process PROCESS = process();
    private static final PrintWriter ORDERS = new PrintWriter(PROCESS.outputWriter(), true);
    private static final Scanner ANSWERS = new Scanner(PROCESS.getInputStream());

    private TestServers() {}

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

    /** Carries out an order, and gives the answer to it. */
    public static synchronized JsonObject order(String what, Map<String, ?> how) {
        Map<String, Object> order = new HashMap<>(how);
        order.put("do", what);
        ORDERS.println(new Gson().toJson(order));
        JsonObject answer = new Gson().fromJson(ANSWERS.nextLine(), JsonObject.class);
        assertFalse(answer.has("error"), order + ": " + answer);
        return answer;
    }

    /** The servers in the answer to their start: one, the nodes of a cluster, or the servers and their Sentinels. */
    private static List<TestServer> servers(JsonObject answer) {
        List<JsonElement> all = new ArrayList<>();
        for (String kind : List.of("nodes", "servers", "sentinels")) {
            if (answer.has(kind)) {
                all.addAll(answer.getAsJsonArray(kind).asList());
            }
        }
        List<JsonElement> found = all.isEmpty() ? List.of(answer) : all;
        return found.stream().map(one -> new TestServer(one.getAsJsonObject().get("port").getAsInt())).toList();
    }

    /** Starts a server, a cluster, Sentinels or a proxy. */
    public static List<TestServer> start(String what, Map<String, ?> how) {
        return servers(order(what, how));
    }

    /** Starts one server. */
    public static TestServer start() {
        return start("server", Map.of()).get(0);
    }
}
