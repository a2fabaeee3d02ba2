package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * What is known of all servers: waits, grants, calls under way and unfinished releases; and the rules of waiting. Its
 * callers hold a mutex.
 */
public final class State {
    /**
     * The next step of the caller of an acquire.
     *
     * @param end it returns: with the grant if this is {@link Fault#NONE}, else with this error
     * @param call it makes this call
     * @param rest without either it waits for so long to be woken
     */
    public record Step(@Nullable Fault end, @Nullable Call call, long rest) {}

    /** A grant; without a token, all that its owner has, a wait too. */
    record Release(Claim.Name name, long token) {}

    record Unfinished(Node node, String[] command) {}

    static final Fault CLOSED = Fault.of(Kind.MISUSE, "the client is closed");
    static final Fault RELEASED = Fault.of(Kind.MISUSE, "it was released already");
    private static final Fault NO_ANSWER = Fault.none(false, "no answer in time");

    /** The time of this call. The caller sets it, each time later. */
    public long at;
    /** Whether {@link #close} was called. */
    public volatile boolean isClosed;
    /** Called, without the mutex, to send a release to the node of the cluster that has its key; must not block. */
    public Consumer<String[]> resend = command -> { };

    final long lease;
    final long reply;
    final boolean isCluster;
    final Map<Claim.Name, Claim> claims = new LinkedHashMap<>(); // waits, and grants that are held, in the order of asking
    final Map<Claim.Name, Integer> calls = new HashMap<>(); // how many are under way
    final Map<Release, String> losses = new HashMap<>(); // while calls in the name are under way
    final Map<Release, Unfinished> unfinished = new LinkedHashMap<>();
    private List<Runnable> news = new ArrayList<>();

    /** lease is that of the sessions, reply how long a reply may take. */
    public State(long lease, long reply, boolean isCluster) {
        this.lease = lease;
        this.reply = reply;
        this.isCluster = isCluster;
    }

    /** Takes the notifications, which are run without the mutex. */
    public List<Runnable> takeNews() {
        List<Runnable> taken = news;
        news = new ArrayList<>();
        return taken;
    }

    void wake(Claim claim) {
        news.add(claim.wake);
    }

    /**
     * Begins a call before it is sent. An owner is not used again while a call in its name is unanswered, nor by its task
     * after one without a reply.
     */
    Call call(Claim claim, String[] command, Function<Call.Answer, Fault> apply) {
        calls.merge(claim.name, 1, Integer::sum);
        return new Call(command, answer -> {
            if (answer.wasOpen() || answer.fault().isSent()) {
                claim.renounceOwner.run();
            }
            Fault fault = apply.apply(answer);
            if (calls.computeIfPresent(claim.name, (name, many) -> many > 1 ? many - 1 : null) == null) {
                losses.keySet().removeIf(of -> of.name.equals(claim.name)); // no later reply can name them
            }
            return fault;
        });
    }

    /** A loss precedes the reply that names the grant while a call is under way. */
    void rememberLoss(Release of, String reason) {
        if (calls.containsKey(of.name)) {
            losses.put(of, reason);
        }
    }

    @Nullable String lossOf(Claim.Name name, long token) {
        return losses.get(new Release(name, token));
    }

    /** Whether a call in the name of this owner is unanswered. */
    public boolean isInUse(String owner) {
        return calls.keySet().stream().anyMatch(name -> name.owner().equals(owner))
                || unfinished.keySet().stream().anyMatch(of -> of.name.owner().equals(owner));
    }

    /** Registers a wait before its call is sent: its event may arrive before its reply. */
    public void ask(Claim wait) {
        if (isClosed) {
            end(wait, CLOSED);
        } else if (claims.putIfAbsent(wait.name, wait) != null) {
            end(wait, Fault.of(Kind.MISUSE, "this owner already waits for the lock or holds it"));
        }
    }

    /** The next step of the caller of an acquire. */
    public Step next(Claim wait) {
        Node node = wait.node;
        boolean isInLine = wait.phase == Claim.Phase.IN_LINE;
        long end = isInLine ? wait.last : wait.askedEnd;
        if (wait.phase == Claim.Phase.ENDED) {
            return new Step(wait.fault, null, 0);
        }
        if (wait.phase == Claim.Phase.HELD) {
            boolean isSure = wait.sure() > at;
            wait.isHandedOver |= isSure && !wait.isFixed; // else when it has left the session
            return new Step(isSure ? Fault.NONE : null, null, TimeUnit.MILLISECONDS.toNanos(5)); // else a POLL is next
        }
        if (node.session == 0 && node.fault.isLasting()) {
            return new Step(node.fault.at(node.address), null, 0);
        }
        if (at >= end && isInLine && wait.session == node.session) {
            return new Step(Fault.of(Kind.BUSY, "the time to wait is over"), null, 0);
        }
        if (at >= end) {
            Fault cause = wait.fault != Fault.NONE ? wait.fault : node.fault != Fault.NONE ? node.fault : NO_ANSWER;
            return new Step(cause.at(node.address), null, 0);
        }
        return new Step(null, isInLine || node.session == 0 ? null : acquire(wait), end - at);
    }

    /** The ACQUIRE of a wait in the session of this moment. */
    Call acquire(Claim wait) {
        long session = wait.node.session;
        return call(wait, wait.acquireCommand(session), answer -> answered(wait, session, answer));
    }

    /** Applies the reply to an ACQUIRE that was sent in this session. */
    Fault answered(Claim wait, long session, Call.Answer answer) {
        Node node = answer.from();
        Fault fault = answer.fault();
        wait.isOpen |= fault.isSent();
        if (fault.isLasting()) {
            endWait(wait, fault.at(node.address));
        } else if (fault != Fault.NONE) {
            if (fault.is("NOSESSION") && session == node.session) {
                node.sessionEnded();
            }
            if (wait.phase == Claim.Phase.IN_LINE && wait.session != node.session) { // its place has gone
                node.isOutside = true;
                if (fault.redirects()) {
                    askAgain(wait);
                }
            }
            if (wait.isWaiting()) {
                wait.fault = fault;
            }
        } else if (answer.isGrant()) {
            if (!granted(node, wait.name, answer.token(), session, answer.sent() + answer.lease())) {
                finishLater(node, wait.name, answer.token());
            }
        } else if (answer.reply().value() == null) {
            endWait(wait, Fault.of(Kind.BUSY, "it is not free"));
        } else if (wait.isWaiting()) {
            // A call that was sent before the end of a place may name that place.
            if (node == wait.node && session == node.session && answer.sent() > wait.endedAt) {
                wait.phase = Claim.Phase.IN_LINE;
                wait.session = session;
            }
        } else if (wait.phase != Claim.Phase.HELD) {
            finishLater(node, wait.name, 0);
        }
        return fault;
    }

    /** Applies a grant. Returns false if the grant has to be given back. */
    boolean granted(Node node, Claim.Name name, long token, long session, long till) {
        Claim claim = claims.get(name);
        if (lossOf(name, token) != null) { // its loss was reported before: it is no grant
            if (claim != null && claim.isWaiting()) {
                askAgain(claim);
            }
            return true;
        }
        if (claim == null) {
            return false;
        }
        if (claim.phase != Claim.Phase.HELD || token > claim.token && !claim.isHandedOver) {
            claim.phase = Claim.Phase.HELD;
            claim.token = token;
            claim.sure = till;
            claim.from = at;
            claim.moveTo(node);
        } else if (token > claim.token) {
            return false; // the user counts on the earlier one
        } else if (token < claim.token || claim.session == 0 || claim.node != node) {
            return true; // an earlier grant, or one that has left the session since
        } else {
            claim.sure = Math.max(claim.sure, till);
            claim.from = Math.max(claim.from, at);
        }
        claim.session = session;
        node.isOutside |= session != node.session;
        wake(claim);
        return true;
    }

    /** Applies the end of a wait without a grant. */
    void ended(Claim wait, String why) {
        Fault fault = Fault.reply(why);
        if (why.equals("timeout") || why.equals("cancelled")) {
            endWait(wait, Fault.of(Kind.BUSY, "the wait has ended: " + why));
        } else if (fault.isLasting()) {
            endWait(wait, fault.at(wait.node.address));
        } else if (wait.isWaiting()) {
            askAgain(wait);
            wait.fault = fault;
            wait.endedAt = at;
        }
    }

    /** Forgets a wait. Returns its cancel, if the server may know it. */
    public @Nullable Call giveUp(Claim wait) {
        boolean isKnown = wait.isOpen || wait.phase == Claim.Phase.IN_LINE || wait.phase == Claim.Phase.HELD;
        if (wait.phase != Claim.Phase.ENDED) {
            end(wait, RELEASED);
        }
        if (!isKnown) {
            return null;
        }
        wait.renounceOwner.run(); // an event of this wait may arrive after the cancel
        String[] cancel = finishLater(wait.node, wait.name, 0);
        return call(wait, cancel, answer -> finished(new Release(wait.name, 0), answer));
    }

    /** Has the loop repeat a release of all holds, without the session; a token of 0: of the wait too. Returns its command. */
    String[] finishLater(Node node, Claim.Name name, long token) {
        String[] command = Claim.words("LOCK.RELEASE", name.key(), name.owner(), "ALL",
                token != 0 ? List.of("TOKEN", token) : List.of());
        unfinished.putIfAbsent(new Release(name, token), new Unfinished(node, command));
        return command;
    }

    /** Applies the answer to an unfinished release. If another node has its key now, it is sent there. */
    Fault finished(Release of, Call.Answer answer) {
        Fault fault = answer.fault();
        Unfinished how = unfinished.get(of);
        if (how != null && fault.redirects()) {
            unfinished.remove(of);
            news.add(() -> resend.accept(how.command));
        } else if (how != null && !fault.isPassing()) {
            unfinished.remove(of);
            how.node.leaving |= of.token != 0 && fault.isLasting() && !fault.isGone();
        }
        return fault;
    }

    /** Ends a claim, for this reason. */
    void end(Claim claim, Fault why) {
        claim.fault = why;
        claim.doubt = null;
        claim.phase = Claim.Phase.ENDED;
        if (claims.remove(claim.name, claim)) {
            claim.node.grants.remove(claim);
        }
        wake(claim);
    }

    private void endWait(Claim wait, Fault why) {
        if (wait.isWaiting()) {
            end(wait, why);
        }
    }

    /** Follows the loss of a place in line. */
    void askAgain(Claim wait) {
        wait.phase = Claim.Phase.ASKED;
        wait.session = 0;
        wake(wait);
    }

    /** Ends all waits and grants. Returns the grants. */
    public List<Claim> close() {
        isClosed = true;
        List<Claim> all = List.copyOf(claims.values());
        List<Claim> grants = all.stream().filter(claim -> claim.phase == Claim.Phase.HELD).toList();
        all.forEach(claim -> end(claim, CLOSED));
        return grants;
    }
}
