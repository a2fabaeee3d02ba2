package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Due;
import io.github.redislock.state.Node;
import io.github.redislock.state.State;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * A server, and the loop that polls its session: a platform thread, the only one that uses the session's connection. It
 * runs no code of the user. All but the server is of the mutex.
 */
final class Loop implements Runnable {
    private static final long LEAST = TimeUnit.MILLISECONDS.toNanos(50);
    private static final long OPEN_TIMES = 500; // as many replies have one reply timeout more

    final Node node;
    final ServerNode server;
    private final Core core;
    private @Nullable Thread thread; // while it runs
    private ServerConnection connection;
    volatile boolean isDown; // to the observer
    private volatile boolean isNeeded; // ends a pause

    Loop(Core core, ServerNode server) {
        this.core = core;
        this.server = server;
        node = new Node(server.address());
        connection = server.connection();
    }

    boolean isRunning() {
        return thread != null;
    }

    /** Starts it if it is not running, and ends its pause. */
    void need() {
        isNeeded = true;
        if (thread != null) {
            LockSupport.unpark(thread);
        } else if (!core.state.isClosed()) {
            thread = core.thread("session", this);
            thread.start();
        }
    }

    /** Closes the connection of a loop that does not end, and waits for its end. */
    void end(long until) {
        Thread running = core.atomically(state -> thread);
        if (running != null) {
            LockSupport.unpark(running);
            Core.join(running, until - Core.now());
            connection.close();
        }
    }

    @Override
    public void run() {
        try {
            loop();
        } finally {
            core.update(state -> thread = thread == Thread.currentThread() ? null : thread);
        }
    }

    private void loop() {
        Pauses pauses = new Pauses();
        boolean wasUnknown = false;
        for (;;) {
            long began = Core.now();
            Fault fault = tried();
            boolean isUnknown = fault != null && fault.word().equals("NOSESSION");
            boolean isBroken = fault != null && !isUnknown;
            if (isBroken) {
                connection.close();
            }
            long most = core.atomically(state -> judge(state, began, fault, isUnknown));
            core.threads.warnOfEnded();
            if (most < 0) {
                return;
            }
            if (fault == null || isUnknown && !wasUnknown) {
                pauses.reset();
                wasUnknown = isUnknown;
                continue;
            }
            if (isBroken && core.server.isCluster()) {
                relocate();
            }
            rest(Math.min(pauses.next(), most));
        }
    }

    /** Applies the end of a round. Returns the longest pause; below 0: this thread ends. */
    private long judge(State state, long began, @Nullable Fault fault, boolean isUnknown) {
        boolean isBroken = fault != null && !isUnknown;
        if (isUnknown) {
            state.sessionEnded(node);
        } else if (isBroken) {
            state.failed(node, began, fault);
        }
        boolean ends = state.isClosed() || isBroken && state.isIdle(node); // until it is needed
        if (ends) {
            thread = null;
            connection.close();
            isBroken = false;
        }
        if (isBroken != isDown) {
            isDown = isBroken;
            LockException why = isBroken ? Errors.unavailable(node.address, fault) : null;
            core.elsewhere(() -> core.observe(observer -> observer.connection(node.address, why)));
        }
        return ends ? -1 : state.isUnsure(node) ? 2 * LEAST : Long.MAX_VALUE; // it is about to be judged
    }

    /** Pauses; but a call that needs a session is not kept waiting. */
    private void rest(long pause) {
        isNeeded = false;
        long begun = Core.now();
        for (long past = 0; past < pause && !core.isClosing && !(isNeeded && past >= LEAST); past = Core.now() - begun) {
            LockSupport.parkNanos(past < LEAST ? Math.min(pause, LEAST) - past : pause - past);
        }
    }

    /** A round. No fault of a library ends the loop. */
    private @Nullable Fault tried() {
        try {
            return round();
        } catch (RuntimeException e) {
            return Fault.none(true, e);
        }
    }

    /** Opens a session if there is none, sends what is due, and polls once. */
    private @Nullable Fault round() {
        long limit = core.settings.reply();
        long session = core.atomically(state -> {
            state.leaveSession(node);
            return node.session;
        });
        if (session == 0) {
            Reply opened = open(limit);
            session = Reply.number(opened.value());
            if (session == 0) {
                return opened.fault();
            }
        }
        long now = session;
        Fault broken = sendDue(limit);
        long[] times = core.atomically(state -> new long[] {state.at, state.block(node), node.session});
        if (broken != null || times[2] != now) {
            return broken;
        }
        Reply polled = send(limit + times[1], "LOCK.SESSION", "POLL", now, "BLOCK", TimeUnit.NANOSECONDS.toMillis(times[1]));
        if (polled.fault() == null) {
            core.update(state -> {
                if (node.session == now) {
                    state.polled(node, times[0], polled.value());
                }
            });
        }
        return polled.fault();
    }

    /** The new session, or a fault. */
    private Reply open(long limit) {
        Reply opened = send(limit, "LOCK.SESSION", "OPEN", "TIMEOUT", TimeUnit.NANOSECONDS.toMillis(core.settings.silence()),
                "NAME", core.settings.service());
        long session = Reply.number(opened.value());
        boolean isClosed = session != 0 && core.atomically(state -> {
            state.opened(node, session);
            return state.isClosed();
        });
        if (isClosed) {
            send(limit, "LOCK.SESSION", "CLOSE", session);
        }
        return session != 0 || opened.fault() != null ? opened : Reply.of(Fault.none(false, "OPEN answered no session", null));
    }

    /** Sends a command once over the user's client. isAsking: ASK led there. */
    Reply call(boolean isAsking, long limit, String[] command) {
        return isAsking ? server.call(limit, List.of(new String[] {"ASKING"}, command)).get(1)
                : server.call(limit, List.<String[]>of(command)).get(0);
    }

    private Reply send(long limit, Object... words) {
        return connection.send(limit, List.<String[]>of(Claim.words(words))).get(0);
    }

    private @Nullable Fault sendDue(long limit) {
        long[] sent = new long[1];
        List<Due> due = core.atomically(state -> {
            sent[0] = state.at;
            return state.due(node);
        });
        if (due.isEmpty()) {
            return null;
        }
        List<Reply> replies = connection.send(limit * (1 + due.size() / OPEN_TIMES), due.stream().map(Due::command).toList());
        return core.atomically(state -> {
            Fault broken = null;
            for (int i = 0; i < due.size(); i++) {
                Reply reply = replies.get(i);
                due.get(i).apply().reply(sent[0], reply);
                broken = reply.is("") ? reply.fault() : broken;
            }
            return broken;
        });
    }

    /** Sends on what a node of the cluster that does not answer may have lost to another one. */
    private void relocate() {
        core.server.refresh();
        core.atomically(state -> state.on(node)).forEach(claim -> {
            LockServer.Place at = core.server.find(claim.name.key(), core.settings.reply());
            if (at.node() != null && at.node() != server) {
                core.update(state -> state.relocate(claim));
            }
        });
    }
}
