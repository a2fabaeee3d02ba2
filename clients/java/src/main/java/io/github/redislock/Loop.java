package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Node;
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
    volatile boolean isDown; // to the observer
    private volatile boolean isNeeded; // ends a pause

    Loop(Core core, ServerNode server) {
        this.core = core;
        this.server = server;
        node = new Node(core.state, server.address());
        connection = server.connection();
        long silence = TimeUnit.NANOSECONDS.toMillis(core.settings.silence());
        open = new String[] {"LOCK.SESSION", "OPEN", "TIMEOUT", String.valueOf(silence), "NAME", core.settings.service()};
    }

    boolean isRunning() {
        return thread != null && thread.isAlive();
    }

    /** Starts it if it is not running, and ends its pause. */
    void need() {
        isNeeded = true;
        if (isRunning()) {
            LockSupport.unpark(thread);
        } else if (!core.state.isClosed) {
            thread = core.thread("session", this);
            thread.start();
        }
    }

    /** Waits until this time for the end of its thread, and closes the connection. */
    void end(long until) {
        while (core.atomically(this::isRunning) && Core.now() < until) {
            LockSupport.unpark(thread);
            Core.pause(TimeUnit.MILLISECONDS.toNanos(1));
        }
        connection.close();
    }

    @Override
    public void run() {
        Pauses pauses = new Pauses();
        long looked = 0;
        for (;;) {
            long began = Core.now();
            isNeeded = false;
            Fault fault = round();
            if (fault != Fault.NONE) {
                connection.close();
            }
            if (began > looked + core.settings.reply()) {
                looked = began;
                core.warnOfEndedThreads();
            }
            boolean isFine = fault == Fault.NONE && !isDown && !core.state.isClosed;
            if (!isFine && core.atomically(() -> ends(began, fault))) {
                return;
            }
            if (fault != Fault.NONE) {
                if (core.server.isCluster()) {
                    relocate();
                }
                rest(pauses.next());
            } else if (!node.isNew) {
                pauses.reset();
            }
        }
    }

    /** Applies what a round has come to. Returns whether this thread ends, until it is needed. */
    private boolean ends(long began, Fault broken) {
        if (broken != Fault.NONE) {
            node.failed(began, broken);
        }
        boolean ends = core.state.isClosed || broken != Fault.NONE && node.isIdle();
        thread = ends ? null : thread;
        boolean isBroken = broken != Fault.NONE && !ends;
        if (isBroken != isDown) {
            isDown = isBroken;
            Fault why = Fault.of(Kind.UNAVAILABLE, broken.text());
            LockException error = isBroken ? LockException.of("session", node.address, why) : null;
            core.elsewhere(() -> core.settings.observer().connection(node.address, error));
        }
        return ends;
    }

    /** Pauses; but a call that needs a session is not kept waiting. */
    private void rest(long pause) {
        long begun = Core.now();
        for (long past = 0; past < pause && !core.state.isClosed && !(isNeeded && past >= LEAST); past = Core.now() - begun) {
            LockSupport.parkNanos(past < LEAST ? Math.min(pause, LEAST) - past : pause - past);
        }
    }

    /** Sends and applies one round. No fault of a library ends the loop. */
    private Fault round() {
        try {
            Node.Round round = core.atomically(() -> node.round(open));
            List<Reply> replies = connection.send(round.limit(), round.commands());
            Fault broken = core.atomically(() -> round.apply(node, replies));
            if (round.commands().get(0) == open && core.state.isClosed && node.session != 0) { // close() has not seen this session
                connection.send(core.settings.reply(), List.<String[]>of(Node.closeCommand(node.session)));
            }
            return broken;
        } catch (RuntimeException e) {
            return Fault.none(true, e);
        }
    }

    /** Sends on what a node of the cluster that does not answer may have lost to another one. */
    private void relocate() {
        core.server.refresh();
        core.atomically(node::claims).forEach(claim -> {
            ServerNode at = core.server.find(claim.name.key(), core.settings.reply()).node();
            if (at != null && at != server) {
                core.update(() -> claim.relocate(node));
            }
        });
    }
}
