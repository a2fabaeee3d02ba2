package io.github.redislock.spi;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** A cluster, whose nodes tell by {@code CLUSTER SLOTS} who serves what. */
public final class ClusterServer implements LockServer {
    private static final int SLOTS = 16384;

    /** Connects to one node. */
    public interface Dial {
        /** See {@link LockServer#connect}. */
        ServerConnection connect(String host, int port, Duration limit) throws IOException;
    }

    private final Dial dial;
    private final Runnable close;
    private final List<String> seeds;
    private volatile @Nullable String @Nullable [] map;
    private int turn;

    /** Nodes to begin with are written {@code host:port}. */
    public ClusterServer(List<String> seeds, Dial dial, Runnable close) {
        this.seeds = List.copyOf(seeds);
        this.dial = dial;
        this.close = close;
    }

    @Override
    public @Nullable String node(String key) {
        @Nullable String[] now = map;
        return now == null ? null : now[slot(key)];
    }

    @Override
    public ServerConnection connect(String node, Duration limit) throws IOException {
        int colon = node.lastIndexOf(':');
        return dial.connect(node.substring(0, colon), Integer.parseInt(node.substring(colon + 1)), limit);
    }

    /** Asks one node after the other, and begins with another one each time: one of them may hang. */
    @Override
    public void refresh(Duration limit) throws IOException {
        Set<String> known = new LinkedHashSet<>();
        @Nullable String[] now = map;
        if (now != null) {
            for (String node : now) {
                if (node != null) {
                    known.add(node);
                }
            }
        }
        known.addAll(seeds);
        List<String> nodes = new ArrayList<>(known);
        int first;
        synchronized (this) {
            first = turn++;
        }
        long until = System.nanoTime() + limit.toNanos();
        IOException last = new IOException("no node of the cluster answers");
        for (int n = 0; n < nodes.size(); n++) {
            Duration left = Duration.ofNanos(Math.max(1_000_000, until - System.nanoTime()));
            Duration share = nodes.size() - n > 1 ? left.dividedBy(2) : left;
            try {
                map = ask(nodes.get((first + n) % nodes.size()), share);
                return;
            } catch (IOException e) {
                last = e;
            }
        }
        throw last;
    }

    private @Nullable String[] ask(String node, Duration limit) throws IOException {
        ServerConnection connection = connect(node, limit);
        try {
            return parse(connection.ask(limit, "CLUSTER", "SLOTS"), node);
        } finally {
            connection.close();
        }
    }

    private static @Nullable String[] parse(@Nullable Object reply, String asked) throws IOException {
        @Nullable String[] all = new String[SLOTS];
        if (!(reply instanceof List<?> ranges) || ranges.isEmpty()) {
            throw new IOException(asked + " knows of no slots");
        }
        for (Object one : ranges) {
            List<?> range = (List<?>) one;
            List<?> primary = (List<?>) range.get(2);
            String host = primary.get(0) instanceof byte[] name ? new String(name, StandardCharsets.UTF_8) : "";
            if (host.isEmpty() || host.equals("?")) {
                host = asked.substring(0, asked.lastIndexOf(':'));
            }
            String node = host + ":" + primary.get(1);
            int last = ((Long) range.get(1)).intValue();
            for (int slot = ((Long) range.get(0)).intValue(); slot <= last; slot++) {
                all[slot] = node;
            }
        }
        return all;
    }

    @Override
    public void close() {
        close.run();
    }

    /** The slot of a key: of what stands in its first braces, or of all of it. */
    static int slot(String key) {
        byte[] bytes = bytes(key);
        int from = 0;
        int to = bytes.length;
        int open = indexOf(bytes, '{', 0);
        int shut = open < 0 ? -1 : indexOf(bytes, '}', open + 1);
        if (shut > open + 1) {
            from = open + 1;
            to = shut;
        }
        int crc = 0;
        for (int n = from; n < to; n++) {
            crc ^= (bytes[n] & 0xff) << 8;
            for (int bit = 0; bit < 8; bit++) {
                crc = (crc & 0x8000) == 0 ? crc << 1 : crc << 1 ^ 0x1021;
            }
        }
        return (crc & 0xffff) % SLOTS;
    }

    private static int indexOf(byte[] bytes, char sought, int from) {
        for (int n = from; n < bytes.length; n++) {
            if (bytes[n] == sought) {
                return n;
            }
        }
        return -1;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
