package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Call;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The way of the commands about a key. In a cluster each reply may change it. */
final class Route {
    private static final String[] ASKING = {"ASKING"};

    private final Core core;
    private final @Nullable String key; // null: always to this loop's server
    private boolean isAsking; // ASK led there
    @Nullable Loop loop; // null: no node has told where the key is

    Route(Core core, @Nullable String key, @Nullable Loop loop) {
        this.core = core;
        this.key = key;
        this.loop = loop;
    }

    /**
     * Finds the way for the next command: where the last fault leads, or else to the node that has the key. If no node
     * tells, the way stays, and the fault is returned.
     */
    Fault follow(Fault last, long limit) {
        if (key == null) {
            return Fault.NONE;
        }
        ServerNode led = loop == null ? null : core.server.redirected(loop.server, last);
        isAsking = led != null && last.is("ASK");
        LockServer.Place place = led != null ? new LockServer.Place(led, Fault.NONE) : core.server.find(key, limit);
        loop = place.node() == null ? loop : core.loopOf(place.node());
        return place.fault();
    }

    /** Sends a command once. wasOpen: an earlier try had no reply. */
    Call.Answer send(long limit, String[] words, boolean wasOpen) {
        long sent = Core.now();
        List<String[]> commands = isAsking ? List.of(ASKING, words) : List.<String[]>of(words);
        List<Reply> replies = loop.server.call(limit, commands);
        return new Call.Answer(loop.node, sent, replies.get(replies.size() - 1), wasOpen);
    }

    /** Sends a command until it is answered, or this time is over. */
    Call.Answer call(long end, String[] words) {
        Pauses pauses = new Pauses();
        Fault last = Fault.NONE;
        for (boolean wasOpen = false;; wasOpen |= last.isSent()) {
            Fault lost = follow(last, Math.min(core.settings.reply(), end - Core.now()));
            Call.Answer answer = lost != Fault.NONE ? new Call.Answer(null, 0, Reply.of(lost), wasOpen)
                    : send(Math.min(core.settings.reply(), end - Core.now()), words, wasOpen);
            last = answer.reply().fault();
            long rest = pauses.next();
            if (!last.isPassing() || key == null && last.is("NOSESSION") || Core.now() + rest >= end) {
                return answer;
            }
            Core.pause(rest);
        }
    }
}
