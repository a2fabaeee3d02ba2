package io.github.redislock.demo;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The application in a process of its own. */
final class Instance {
    private static final Pattern STARTED = Pattern.compile("Tomcat started on port (\\d+)");

    final Process process;
    private final HttpClient client = HttpClient.newHttpClient();
    private final int port;

    Instance(String... properties) throws IOException {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(), "-Xmx128m",
                "-XX:TieredStopAtLevel=1", "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                SeatsApplication.class.getName(), "--server.port=0", "--redis-lock.reply-timeout=5s"));
        command.addAll(List.of(properties));
        process = new ProcessBuilder(command).redirectErrorStream(true).start();
        port = port(process.inputReader());
    }

    private static int port(BufferedReader log) throws IOException {
        for (String line = log.readLine(); line != null; line = log.readLine()) {
            System.out.println(line);
            Matcher started = STARTED.matcher(line);
            if (started.find()) {
                Thread rest = new Thread(() -> log.lines().forEach(System.out::println));
                rest.setDaemon(true);
                rest.start();
                return Integer.parseInt(started.group(1));
            }
        }
        throw new IOException("it does not start");
    }

    /** The status of the answer. */
    int buy(int seat, String buyer) throws IOException, InterruptedException {
        return send("/seats/" + seat + "/buy?buyer=" + buyer, "POST").statusCode();
    }

    HttpResponse<String> send(String path, String method) throws IOException, InterruptedException {
        return client.send(HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                .method(method, HttpRequest.BodyPublishers.noBody()).build(), HttpResponse.BodyHandlers.ofString());
    }
}
