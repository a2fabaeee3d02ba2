package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.LockServer.Place;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Answer;
import org.jspecify.annotations.Nullable;

/** The way of the commands about a key. In a cluster each reply may change it. */
final class Route {
    private final Core core;
    private final @Nullable String key; // null: always to this loop's server
    private boolean isAsking; // ASK led there
    private Fault fault = Fault.NONE;
    @Nullable Loop loop; // null: no node has told where the key is

    Route(Core core, String key) {
        this.core = core;
        this.key = key;
    }

    Route(Core core, Loop loop) {
        this.core = core;
        this.loop = loop;
        key = null;
    }

    /** Finds the way for the next command: where the last fault leads, or else to the node that has the key. */
    Fault follow(Fault last, long limit) {
        if (key != null) {
            ServerNode led = loop == null ? null : core.server.redirected(loop.server, last);
            isAsking = led != null && last.is("ASK");
            Place place = led != null ? new Place(led, Fault.NONE) : core.server.find(key, limit);
            loop = place.node() == null ? null : core.loopOf(place.node());
            fault = place.fault();
        }
        return fault;
    }

    /** Sends a command once. */
    Reply send(long limit, String[] words) {
        return loop != null ? loop.call(isAsking, limit, words) : Reply.of(fault);
    }

    /** Sends a command until it is answered, or this time is over. */
    Answer call(long end, String[] words) {
        Pauses pauses = new Pauses();
        Fault last = Fault.NONE;
        for (boolean wasOpen = false;; wasOpen |= last.isSent()) {
            follow(last, Math.min(core.settings.reply(), end - Core.now()));
            long sent = Core.now();
            Reply reply = send(Math.min(core.settings.reply(), end - sent), words);
            last = reply.fault();
            long rest = pauses.next();
            if (!last.isPassing() || key == null && last.is("NOSESSION") || Core.now() + rest >= end) {
                return new Answer(sent, reply, wasOpen);
            }
            Core.pause(rest);
        }
    }
}
