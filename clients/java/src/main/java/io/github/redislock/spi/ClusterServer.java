package io.github.redislock.spi;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.function.ToIntFunction;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A cluster, whose nodes tell by {@code CLUSTER SLOTS} who has what.
 *
 * <pre>{@code
 * LockServer cluster = new ClusterServer(List.of("node-1:6379", "node-2:6379"), SlotHash::getSlot,
 *         address -> node(address), () -> { });
 * }</pre>
 */
public final class ClusterServer implements LockServer {
    private static final int SLOTS = 16384;

    private final List<String> seeds;
    private final ToIntFunction<String> slot;
    private final Function<String, ServerNode> dial;
    private final Runnable close;
    private final Map<String, ServerNode> nodes = new ConcurrentHashMap<>();
    private volatile String[] map = new String[SLOTS]; // the address of the primary of each slot
    private volatile boolean isOld = true; // it is to be read before it is used

    /**
     * Opens no connection. Nodes are written {@code host:port}.
     *
     * @param seeds the nodes to begin with
     * @param slot the slot of a key, from 0 to 16383
     * @param dial makes a node, once for each address
     * @param close is called when all nodes are closed
     */
    public ClusterServer(List<String> seeds, ToIntFunction<String> slot, Function<String, ServerNode> dial, Runnable close) {
        this.seeds = List.copyOf(seeds);
        this.slot = slot;
        this.dial = dial;
        this.close = close;
    }

    @Override
    public boolean isCluster() {
        return true;
    }

    private ServerNode at(String address) {
        return nodes.computeIfAbsent(address, dial);
    }

    @Override
    public Place find(String key, long limit) {
        Fault fault = isOld ? read(limit) : Fault.NONE;
        String address = map[slot.applyAsInt(key)];
        if (address == null) {
            isOld = true;
            return new Place(null, fault != Fault.NONE ? fault : Fault.none(false, "no node has the slot of " + key));
        }
        return new Place(at(address), Fault.NONE);
    }

    /** Reads the map from the first node that tells it. Half of the time that is left is for each. */
    private Fault read(long limit) {
        List<String> order = Stream.concat(nodes.keySet().stream(), seeds.stream()).distinct().collect(Collectors.toList());
        Collections.shuffle(order);
        Fault fault = Fault.none(false, "no node of the cluster");
        long end = System.nanoTime() + limit;
        for (String address : order) {
            long left = (end - System.nanoTime()) / 2;
            if (left < 1_000_000) {
                break;
            }
            Reply reply = at(address).call(left, List.<String[]>of(new String[] {"CLUSTER", "SLOTS"})).get(0);
            fault = reply.fault();
            if (!reply.isFault()) {
                map = slots(Reply.list(reply.value()), address);
                isOld = false;
                break;
            }
        }
        return fault;
    }

    /** The address of the primary of each slot. */
    private static String[] slots(List<@Nullable Object> rows, String asked) {
        String[] read = new String[SLOTS];
        for (Object row : rows) {
            List<@Nullable Object> range = Reply.list(row);
            List<@Nullable Object> primary = Reply.list(range.get(2));
            String named = address(String.valueOf(primary.get(0)), primary.get(1), asked);
            Arrays.fill(read, (int) Reply.number(range.get(0)), (int) Reply.number(range.get(1)) + 1, named);
        }
        return read;
    }

    /** A node that does not know its own name is the one that was asked. */
    private static String address(String host, @Nullable Object port, String asked) {
        boolean isUnknown = host.isEmpty() || host.equals("?") || host.equals("null");
        return (isUnknown ? asked.substring(0, asked.lastIndexOf(':')) : host) + ":" + port;
    }

    @Override
    public @Nullable ServerNode redirected(ServerNode from, Fault fault) {
        if (!fault.redirects()) {
            return null;
        }
        refresh();
        String[] words = fault.text().split(" ");
        int colon = words.length < 3 ? -1 : words[2].lastIndexOf(':');
        return colon < 0 ? null
                : at(address(words[2].substring(0, colon), words[2].substring(colon + 1), from.address()));
    }

    @Override
    public void refresh() {
        isOld = true;
    }

    @Override
    public void close() {
        nodes.values().forEach(ServerNode::close);
        close.run();
    }
}
