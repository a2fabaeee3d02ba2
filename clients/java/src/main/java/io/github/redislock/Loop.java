package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Node;
import io.github.redislock.state.Round;
import io.github.redislock.state.State;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * A server, and the loop that polls its session: a platform thread, the only one that uses the session's connection. It
 * runs no code of the user. The node and the thread are of the mutex.
 */
final class Loop implements Runnable {
    private static final long LEAST = TimeUnit.MILLISECONDS.toNanos(50);

    final Node node;
    final ServerNode server;
    private final Core core;
    private @Nullable Thread thread; // while it runs
    private final ServerConnection connection;
    private final String[] open;
    private @Nullable Round next; // planned when the last one was applied: callers that were woken compete for the mutex
    volatile boolean isDown; // to the observer
    private volatile boolean isNeeded; // ends a pause

    Loop(Core core, ServerNode server) {
        this.core = core;
        this.server = server;
        node = new Node(server.address());
        connection = server.connection();
        open = Claim.words("LOCK.SESSION", "OPEN", "TIMEOUT", TimeUnit.NANOSECONDS.toMillis(core.settings.silence()),
                "NAME", core.settings.service());
        node.resend = command -> core.elsewhere(() -> new Route(core, command[1]).call(core.end(), command));
    }

    boolean isRunning() {
        return thread != null && thread.isAlive();
    }

    /** Starts it if it is not running, and ends its pause. */
    void need() {
        isNeeded = true;
        if (isRunning()) {
            LockSupport.unpark(thread);
        } else if (!core.isClosing) {
            thread = core.thread("session", this);
            thread.start();
        }
    }

    /** Waits for the end of its thread, and closes the connection. */
    void end(long until) {
        Thread running = core.atomically(() -> thread);
        if (running != null) {
            LockSupport.unpark(running);
            Core.join(running, until - Core.now());
        }
        connection.close();
    }

    @Override
    public void run() {
        Pauses pauses = new Pauses();
        for (;;) {
            long began = Core.now();
            Fault fault = round();
            if (fault != Fault.NONE) {
                connection.close();
            }
            core.threads.warnOfEnded();
            boolean isFine = fault == Fault.NONE && !isDown && !core.isClosing;
            long most = isFine ? 0 : core.atomically(() -> judge(began, fault));
            if (most < 0) {
                return;
            }
            if (fault == Fault.NONE) {
                if (!node.isNew) {
                    pauses.reset();
                }
                continue;
            }
            if (core.server.isCluster()) {
                relocate();
            }
            rest(Math.min(pauses.next(), most));
        }
    }

    /** Applies the end of a round. Returns the longest pause; below 0: this thread ends. */
    private long judge(long began, Fault broken) {
        if (broken != Fault.NONE) {
            core.state.failed(node, began, broken);
        }
        boolean ends = core.isClosing || broken != Fault.NONE && core.state.isIdle(node); // until it is needed
        if (ends) {
            thread = null;
        }
        boolean isBroken = broken != Fault.NONE && !ends;
        if (isBroken != isDown) {
            isDown = isBroken;
            LockException why = isBroken ? Errors.of("session", node.address, Fault.of(Kind.UNAVAILABLE, broken.text())) : null;
            core.elsewhere(() -> core.observe(observer -> observer.connection(node.address, why)));
        }
        return ends ? -1 : core.state.isUnsure(node) ? 2 * LEAST : Long.MAX_VALUE; // it is about to be judged
    }

    /** Pauses; but a call that needs a session is not kept waiting. */
    private void rest(long pause) {
        isNeeded = false;
        long begun = Core.now();
        for (long past = 0; past < pause && !core.isClosing && !(isNeeded && past >= LEAST); past = Core.now() - begun) {
            LockSupport.parkNanos(past < LEAST ? Math.min(pause, LEAST) - past : pause - past);
        }
    }

    /** Sends and applies one round. No fault of a library ends the loop. */
    private Fault round() {
        try {
            Round round = next != null ? next : core.atomically(() -> core.state.round(node, open));
            next = null;
            List<Reply> replies = connection.send(round.limit(), round.commands());
            Fault broken = core.atomically(() -> {
                Fault fault = round.apply(replies);
                next = fault == Fault.NONE ? core.state.round(node, open) : null;
                return fault;
            });
            if (round.commands().get(0) == open && core.isClosing && node.session != 0) { // close() has not seen this session
                connection.send(core.settings.reply(), List.<String[]>of(State.closeCommand(node.session)));
            }
            return broken;
        } catch (RuntimeException e) {
            return Fault.none(true, e);
        }
    }

    /** Sends a command once over the user's client. isAsking: ASK led there. */
    Reply call(boolean isAsking, long limit, String[] command) {
        return isAsking ? server.call(limit, List.of(new String[] {"ASKING"}, command)).get(1)
                : server.call(limit, List.<String[]>of(command)).get(0);
    }

    /** Sends on what a node of the cluster that does not answer may have lost to another one. */
    private void relocate() {
        core.server.refresh();
        core.atomically(() -> core.state.on(node)).forEach(claim -> {
            LockServer.Place at = core.server.find(claim.name.key(), core.settings.reply());
            if (at.node() != null && at.node() != server) {
                core.update(() -> core.state.relocate(claim));
            }
        });
    }
}
