package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** One acquire: first a wait, then a grant, then its release; and the rules of what is held. */
public final class Claim {
    /** Identifies a claim: no two claims of a client have the same key and owner. */
    public record Name(String key, String owner) {}

    /** The phases of a claim. A grant that is held is unsure if its time has passed. A claim that has ended has a fault. */
    public enum Phase { ASKED, IN_LINE, HELD, ENDED }

    private static final long FAR = 1L << 61; // a time without a limit

    /** The key and the owner. */
    public final Name name;
    /** The words SHARED or LIMIT n. */
    public final List<String> mode;
    /** The lease in nanoseconds. */
    public long lease;
    /** The lease is not renewed: the grant leaves its session before the user has it. */
    public boolean isFixed;
    /** The token of a grant to adopt, instead of a new one. */
    public long adopted;
    /** Called, without the mutex, when the caller has to look again, or to look for a grant in doubt; must not block. */
    public Runnable wake = () -> { };
    /** Called when its task, if it has one, must not use the owner again. */
    public Runnable renounceOwner = () -> { };

    /** The server that has the lock. */
    public Node node;
    /** Its phase. */
    public volatile Phase phase = Phase.ASKED;
    /** Of the place, or of the grant; 0: none. */
    public long session;
    /** The fencing token. */
    public long token;
    /** How often the owner holds it. */
    public long holds = 1;
    /** Why the last try to acquire has failed, or why it has ended. */
    public Fault fault = Fault.NONE;
    /** Another node of the cluster may have the grant: the reason of its loss if not. */
    public volatile @Nullable String doubt;
    /** The user has the grant. */
    public boolean isHandedOver;
    /** How long one try may take. */
    public final long limit;
    /** When asking without a reply ends. */
    public final long askedEnd;
    /** When the caller gives up at the latest. */
    public final long last;

    final long end; // of the caller's time
    private final State state;
    private final long wait;
    boolean isOpen; // an acquire had no reply: the server may still carry it out
    long endedAt = Long.MIN_VALUE; // when its session reported the end of a place with a passing error
    long sure; // see sure()
    long from; // no POLL sent before makes it sure
    long tried; // since when its server has not answered after it was sure

    /** A claim that waits for this long from now on. 0: it does not wait; below 0: without a limit. */
    public Claim(Name name, List<String> mode, long lease, long wait, Node node) {
        state = node.state;
        long time = wait < 0 ? FAR : wait;
        long asking = Math.max(time, state.reply);
        this.name = name;
        this.mode = mode;
        this.lease = lease;
        this.node = node;
        this.wait = wait;
        limit = Math.min(state.reply, asking / 2);
        end = state.at + time;
        askedEnd = state.at + asking;
        last = end + state.reply;
    }

    private static String millis(long nanos) {
        return String.valueOf((nanos + 999_999) / 1_000_000);
    }

    /** A command of these words, in which a list stands for several. */
    static String[] words(Object... words) {
        List<String> all = new ArrayList<>();
        for (Object word : words) {
            for (Object one : word instanceof List<?> more ? more : List.of(word)) {
                all.add(one.toString());
            }
        }
        return all.toArray(String[]::new);
    }

    /** Asks for the lock. HOLDS 1 makes it safe to repeat. */
    String[] acquireCommand(long session) {
        String time = millis(Math.max(lease, TimeUnit.SECONDS.toNanos(1))); // the least that the server renews
        if (adopted != 0) {
            return words("LOCK.RENEW", name.key, name.owner, "PX", time, "SESSION", session, "TOKEN", adopted);
        }
        long rest = wait < 0 ? 0 : Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - state.at)); // 0: without a limit
        return words("LOCK.ACQUIRE", name.key, name.owner, mode, "PX", time, "HOLDS", 1, "SESSION", session,
                wait == 0 ? List.of() : List.of("QUEUE", rest));
    }

    /**
     * The user's own release, after which its owner has so many holds. It alone names the session, so that the server
     * reports no loss.
     */
    public String[] releaseCommand(long holds) {
        return words("LOCK.RELEASE", name.key, name.owner, "HOLDS", holds, "TOKEN", token,
                session != 0 ? List.of("SESSION", session) : List.of());
    }

    /** Renews the grant, with more words of the command. */
    String[] renewCommand(Object... more) {
        return words("LOCK.RENEW", name.key, name.owner, "TOKEN", token, List.of(more));
    }

    boolean isWaiting() {
        return phase == Phase.ASKED || phase == Phase.IN_LINE;
    }

    /** Whether the grant ended before its holder released it. */
    public boolean isLost() {
        return phase == Phase.ENDED && fault.kind() == Kind.LOST;
    }

    /** Until when nobody else has the lock. A grant that may be deleted is unsure. */
    public long sure() {
        return "deleted".equals(doubt) ? Math.min(sure, state.at) : sure;
    }

    /** Has the grant belong to this node. */
    void moveTo(Node to) {
        node.grants.remove(this);
        node = to;
        to.grants.add(this);
    }

    void lose(String reason) {
        if (!isLost()) {
            state.end(this, Fault.of(Kind.LOST, reason));
            renounceOwner.run();
        }
    }

    /** Loses it for what the server reported, or else for this answer. */
    private void gone(Fault answer) {
        String known = doubt != null ? doubt : state.lossOf(name, token);
        lose(known != null ? known : "gone (" + answer.word() + ")");
    }

    /** Begins a call about the grant; null if that has ended. */
    private @Nullable Call call(String[] command, Function<Call.Answer, Fault> apply) {
        return phase == Phase.ENDED ? null : state.call(this, command, apply);
    }

    /** Asks whether the grant stands. */
    public @Nullable Call check() {
        return call(words("LOCK.FENCE", name.key, token), this::confirmed);
    }

    /** Adds a hold. */
    public @Nullable Call enter(List<String> mode) {
        String[] command = words("LOCK.ACQUIRE", name.key, name.owner, mode, "PX", millis(lease), "HOLDS", holds + 1,
                "TOKEN", token);
        return call(command, answer -> {
            Fault failure = confirmed(answer);
            holds += failure == Fault.NONE ? 1 : 0;
            return failure;
        });
    }

    /** Lifts its token. AHEAD is an error that changes nothing. */
    public @Nullable Call raise(long token) {
        return call(renewCommand("RAISE", token), this::confirmed);
    }

    /**
     * Gives the grant this lease. leaves: it also takes the grant out of its session. Until it is answered, no POLL
     * counts.
     */
    public @Nullable Call renew(long lease, boolean leaves) {
        String[] command = leaves ? renewCommand("PX", millis(lease), "SESSION", 0) : renewCommand("PX", millis(lease));
        Call call = call(command, answer -> renewed(answer, leaves));
        if (call != null) {
            State.Release of = new State.Release(name, token);
            boolean isRepeated = from == FAR && node.leaves.contains(of);
            if (leaves && !isRepeated && session != 0 && session == node.session) {
                node.leaves.add(of);
            }
            sure = Math.min(sure, state.at + lease);
            from = FAR;
        }
        return call;
    }

    private Fault renewed(Call.Answer answer, boolean leaves) {
        if (!answer.fault().isSent()) {
            from = state.at;
            if (leaves && answer.fault() != Fault.NONE && session != 0) {
                node.leaves.remove(new State.Release(name, token));
            }
        }
        Fault failure = confirmed(answer);
        if (leaves && failure == Fault.NONE) {
            session = 0;
            isHandedOver = true;
            node.grants.remove(this);
        }
        return failure;
    }

    /** Applies the last reply to a check, a re-entry, a renewal or a raise, which changes the token. */
    private Fault confirmed(Call.Answer answer) {
        if (answer.fault().isGone()) {
            gone(answer.fault());
        } else if (answer.isGrant() && phase == Phase.HELD) {
            token = answer.token();
            lease = answer.lease();
            sure = Math.max(sure, answer.sent() + lease);
            if (state.lossOf(name, token) != null) { // which was reported before this reply named the token
                gone(answer.fault());
            }
        }
        return phase == Phase.ENDED ? fault : answer.fault().at(node.address);
    }

    /** Forgets a grant that is left to others. */
    public void letGo() {
        state.end(this, State.RELEASED);
        renounceOwner.run();
    }

    /** Takes a hold away, also from a grant that is lost. Returns the call for it: from here on it is not held. */
    public @Nullable Call release() {
        holds = Math.max(0, holds - 1);
        Call call = releaseTo(holds);
        if (call != null && holds == 0) {
            state.end(this, State.RELEASED);
        }
        return call;
    }

    private @Nullable Call releaseTo(long left) {
        return call(releaseCommand(left), answer -> released(left, answer));
    }

    private Fault released(long left, Call.Answer answer) {
        Fault failure = answer.fault();
        boolean isDone = left == 0 && answer.wasOpen() && state.lossOf(name, token) == null;
        if (failure.isGone() && !isDone) {
            gone(failure);
            return fault;
        }
        if (failure == Fault.NONE || failure.isGone()) {
            return Fault.NONE;
        }
        if (left == 0 && failure.isLasting()) { // the server would go on to renew the grant: leave its session
            node.leaving |= session != 0 && session == node.session;
        } else if (left == 0) { // else a re-entry may have come between
            state.unfinished.put(new State.Release(name, token), new State.Unfinished(node, releaseCommand(0)));
        }
        return failure.at(node.address);
    }

    /**
     * Ends a grant whose maximum time is over, or whose fixed lease is. Returns its release; or null, and then
     * {@link #rest} says how long the grant lasts.
     */
    public @Nullable Call end(long most) {
        if (phase != Phase.HELD || rest(most) > 0) {
            return null;
        }
        Call call = releaseTo(0);
        lose(isFixed && sure() <= most ? "expired" : "its maximum time is over");
        return call;
    }

    /** How long a grant lasts that is not renewed, or has a maximum time. */
    public long rest(long most) {
        return (isFixed ? Math.min(sure(), most) : most) - state.at;
    }

    /** Marks a grant that another node of the cluster may have. It is unsure until it has been looked for. */
    void doubt(String reason) {
        doubt = reason;
        session = 0;
        state.wake(this);
    }

    /** Looks for a grant in doubt where its key is now. The loop of that node then moves the grant to its session. */
    public @Nullable Call find() {
        return call(renewCommand(), answer -> moved(0, answer));
    }

    /** Applies the answer to the RENEW of a grant that was not in this session; 0: that was looked for. */
    Fault moved(long session, Call.Answer answer) {
        Node to = answer.from();
        boolean isLost = answer.fault().isGone() || answer.isGrant() && state.lossOf(name, token) != null;
        if (phase != Phase.HELD || session == 0 && doubt == null || session != 0 && !to.grants.contains(this)) {
            return answer.fault(); // nothing is to be moved any more
        }
        if (isLost || !answer.isGrant() && "deleted".equals(doubt)) {
            gone(answer.fault());
        } else if (answer.isGrant()) {
            this.session = session;
            doubt = null;
            if (answer.sent() > from) { // no other RENEW was under way
                sure = Math.max(sure, answer.sent() + answer.lease());
                from = state.at;
            }
            moveTo(to);
            to.isOutside |= session == 0;
        } else if (session != 0 && state.isCluster && answer.fault().redirects()) {
            doubt("moved");
        } else { // it is asked for again
            doubt = null;
            node.isOutside = true;
        }
        return answer.fault();
    }

    /** Has a claim asked for where its key is now, which is not this node of the cluster any more. */
    public void relocate(Node old) {
        if (node == old && phase == Phase.IN_LINE) {
            state.askAgain(this);
        } else if (node == old && phase == Phase.HELD && session != 0 && doubt == null) {
            doubt("moved");
        }
    }
}
