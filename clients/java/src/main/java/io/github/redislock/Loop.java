package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.LockServer;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.state.Claim;
import io.github.redislock.state.Due;
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
    private static final long OPEN_TIMES = 500; // as many replies have one reply timeout more

    /** The work of one round, and its time. */
    private record Plan(long session, List<Due> due, long at, long block) {}

    final Node node;
    final ServerNode server;
    private final Core core;
    private @Nullable Thread thread; // while it runs
    private final ServerConnection connection;
    volatile boolean isDown; // to the observer
    private volatile boolean isNeeded; // ends a pause

    Loop(Core core, ServerNode server) {
        this.core = core;
        this.server = server;
        node = new Node(server.address());
        connection = server.connection();
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
        boolean wasUnknown = false;
        for (;;) {
            long began = Core.now();
            Fault fault = tried();
            boolean isUnknown = fault.is("NOSESSION");
            boolean isBroken = fault != Fault.NONE && !isUnknown;
            if (isBroken) {
                connection.close();
            }
            core.threads.warnOfEnded();
            boolean isFine = fault == Fault.NONE && !isDown && !core.isClosing;
            long most = isFine ? 0 : core.atomically(() -> judge(began, isUnknown, isBroken ? fault : Fault.NONE));
            if (most < 0) {
                return;
            }
            if (fault == Fault.NONE || isUnknown && !wasUnknown) {
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
    private long judge(long began, boolean isUnknown, Fault broken) {
        if (isUnknown) {
            core.state.sessionEnded(node);
        } else if (broken != Fault.NONE) {
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

    /** A round. No fault of a library ends the loop. */
    private Fault tried() {
        try {
            return round();
        } catch (RuntimeException e) {
            return Fault.none(true, e);
        }
    }

    private Plan plan(boolean sendsDue) {
        core.state.leaveSession(node);
        List<Due> due = node.session != 0 && sendsDue ? core.state.due(node) : List.of();
        return new Plan(node.session, due, core.state.at, core.state.block(node));
    }

    /** Opens a session if there is none, sends what is due, and polls once. */
    private Fault round() {
        Plan plan = core.atomically(() -> plan(true));
        if (plan.session == 0) {
            return open();
        }
        if (!plan.due.isEmpty()) {
            Fault broken = send(plan);
            Plan next = core.atomically(() -> plan(false));
            if (broken != Fault.NONE || next.session != plan.session) {
                return broken;
            }
            plan = next;
        }
        return poll(plan);
    }

    private Fault poll(Plan plan) {
        Reply polled = send(core.settings.reply() + plan.block, "LOCK.SESSION", "POLL", plan.session, "BLOCK",
                TimeUnit.NANOSECONDS.toMillis(plan.block));
        if (!polled.isFault()) {
            core.update(() -> {
                if (node.session == plan.session) {
                    core.state.polled(node, plan.at, polled.value());
                }
            });
        }
        return polled.fault();
    }

    private Fault open() {
        Reply opened = send(core.settings.reply(), "LOCK.SESSION", "OPEN", "TIMEOUT",
                TimeUnit.NANOSECONDS.toMillis(core.settings.silence()), "NAME", core.settings.service());
        long session = Reply.number(opened.value());
        if (session == 0) {
            return opened.isFault() ? opened.fault() : Fault.none(false, "OPEN answered no session");
        }
        boolean isClosed = core.atomically(() -> {
            core.state.opened(node, session);
            return core.isClosing;
        });
        if (isClosed) {
            send(core.settings.reply(), "LOCK.SESSION", "CLOSE", session);
        }
        return Fault.NONE;
    }

    /** Sends a command once over the user's client. isAsking: ASK led there. */
    Reply call(boolean isAsking, long limit, String[] command) {
        return isAsking ? server.call(limit, List.of(new String[] {"ASKING"}, command)).get(1)
                : server.call(limit, List.<String[]>of(command)).get(0);
    }

    private Reply send(long limit, Object... words) {
        return connection.send(limit, List.<String[]>of(Claim.words(words))).get(0);
    }

    private Fault send(Plan plan) {
        List<Due> due = plan.due;
        long limit = core.settings.reply() * (1 + due.size() / OPEN_TIMES);
        List<Reply> replies = connection.send(limit, due.stream().map(Due::command).toList());
        return core.atomically(() -> {
            Fault broken = Fault.NONE;
            for (int i = 0; i < due.size(); i++) {
                Fault fault = replies.get(i).fault();
                String[] command = due.get(i).command();
                due.get(i).apply().reply(plan.at, replies.get(i));
                broken = fault.isSilence() ? fault : broken;
                if (fault.redirects() && command[0].equals("LOCK.RELEASE")) { // another node has that key now
                    core.elsewhere(() -> new Route(core, command[1]).call(core.end(), loop -> command));
                }
            }
            return broken;
        });
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
