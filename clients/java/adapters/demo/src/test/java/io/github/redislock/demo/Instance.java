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
final class Instance implements AutoCloseable {
    private static final Pattern STARTED = Pattern.compile("Tomcat started on port (\\d+)");

    private final Process process;
    private final HttpClient client = HttpClient.newHttpClient();
    private final List<String> log = new ArrayList<>();
    private final int port;

    Instance(List<String> properties) throws IOException {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(), "-Xmx128m",
                "-XX:TieredStopAtLevel=1", "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                SeatsApplication.class.getName(), "--server.port=0", "--redis-lock.reply-timeout=5s"));
        for (String property : properties) {
            command.add("--" + property);
        }
        process = new ProcessBuilder(command).redirectErrorStream(true).start();
        port = read(process.inputReader());
    }

    private int read(BufferedReader lines) throws IOException {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            log.add(line);
            Matcher started = STARTED.matcher(line);
            if (started.find()) {
                Thread rest = new Thread(() -> readOn(lines));
                rest.setDaemon(true);
                rest.start();
                return Integer.parseInt(started.group(1));
            }
        }
        throw new IOException("it does not start:\n" + String.join("\n", log));
    }

    private void readOn(BufferedReader lines) {
        try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                synchronized (log) {
                    log.add(line);
                }
            }
        } catch (IOException e) {
            // It has ended.
        }
    }

    /** The status of the answer. */
    int buy(int seat, String buyer) throws IOException, InterruptedException {
        return send("/seats/" + seat + "/buy?buyer=" + buyer, "POST").statusCode();
    }

    String get(String path) throws IOException, InterruptedException {
        return send(path, "GET").body();
    }

    private HttpResponse<String> send(String path, String method) throws IOException, InterruptedException {
        return client.send(HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
                .method(method, HttpRequest.BodyPublishers.noBody()).build(), HttpResponse.BodyHandlers.ofString());
    }

    long pid() {
        return process.pid();
    }

    /** kill -9. */
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    /** SIGTERM, and its exit. */
    void stop() throws InterruptedException {
        process.destroy();
        process.waitFor();
    }

    String log() {
        synchronized (log) {
            return String.join("\n", log);
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
