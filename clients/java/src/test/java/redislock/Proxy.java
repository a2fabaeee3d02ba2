package redislock;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Stands before a server. It can delay answers, or lose one: it cuts the connection when the server
 * has answered a command, before the client hears of it.
 */
final class Proxy implements AutoCloseable {
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
    private final int server;
    volatile int delayMs;
    volatile int cuts;
    private String lose;

    Proxy(int server) throws IOException {
        this.server = server;
        background(() -> {
            for (;;) {
                Socket client = listener.accept();
                background(() -> serve(client));
            }
        });
    }

    int port() {
        return listener.getLocalPort();
    }

    /** Loses the next answer of a command that has this word in it. */
    synchronized void loseAnswerOf(String word) {
        lose = word;
    }

    private synchronized boolean loses(String request) {
        boolean loses = lose != null && request.contains(lose);
        if (loses) {
            lose = null;
        }
        return loses;
    }

    private void serve(Socket client) throws IOException {
        AtomicBoolean losing = new AtomicBoolean();
        try (client; Socket upstream = new Socket("127.0.0.1", server)) {
            background(() -> {
                try (upstream) {
                    copy(client.getInputStream(), upstream, request -> {
                        if (loses(request)) {
                            losing.set(true);
                        }
                        return true;
                    });
                }
            });
            copy(upstream.getInputStream(), client, answer -> {
                if (losing.get()) {
                    cuts++;
                    return false;
                }
                Thread.sleep(delayMs);
                return true;
            });
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private interface Filter {
        boolean passes(String text) throws InterruptedException;
    }

    private static void copy(InputStream from, Socket to, Filter filter) throws IOException, InterruptedException {
        byte[] buffer = new byte[1 << 16];
        for (int n; (n = from.read(buffer)) > 0 && filter.passes(new String(buffer, 0, n, StandardCharsets.ISO_8859_1));) {
            to.getOutputStream().write(buffer, 0, n);
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void background(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception e) {
                // A connection or the proxy was closed.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
