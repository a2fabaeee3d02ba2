package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertFalse;

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;

/** Servers and proxies, by {@code testbed serve} (crates/testing/testbed/src/bin/testbed/serve.rs). */
final class Testbed {
    private static final Process PROCESS = process();
    private static final PrintWriter ORDERS = new PrintWriter(PROCESS.outputWriter(), true);
    private static final Scanner ANSWERS = new Scanner(PROCESS.getInputStream());

    private Testbed() {}

    private static Process process() {
        try {
            String program = System.getenv().getOrDefault("TESTBED", "cargo run --quiet --package testbed --");
            List<String> command = new ArrayList<>(List.of(program.split(" ")));
            command.add("serve");
            return new ProcessBuilder(command)
                    .directory(new File("../..")).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static synchronized JsonObject order(String what, Map<String, ?> how) {
        Map<String, Object> order = new HashMap<>(how);
        order.put("do", what);
        ORDERS.println(new Gson().toJson(order));
        JsonObject answer = new Gson().fromJson(ANSWERS.nextLine(), JsonObject.class);
        assertFalse(answer.has("error"), order + ": " + answer);
        return answer;
    }

    /** The servers in the answer to their start: one, the nodes of a cluster, or the servers and their Sentinels. */
    static List<TestServer> servers(JsonObject answer) {
        List<JsonElement> all = new ArrayList<>();
        for (String kind : List.of("nodes", "servers", "sentinels")) {
            if (answer.has(kind)) {
                all.addAll(answer.getAsJsonArray(kind).asList());
            }
        }
        List<JsonElement> found = all.isEmpty() ? List.of(answer) : all;
        return found.stream().map(one -> new TestServer(one.getAsJsonObject().get("port").getAsInt())).toList();
    }
}
