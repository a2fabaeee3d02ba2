package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The rules of what is held. */
public class Grants extends Ledger {
    Grants(long lease, long reply, boolean isCluster) {
        super(lease, reply, isCluster);
    }

    /** Until when nobody else has the lock. */
    public long sure(Claim claim) {
        if (claim.session == claim.node.session && claim.session != 0) {
            for (Node.Sure sure : claim.node.sures) {
                if (sure.sent() > claim.from) { // the grant was known then
                    return Math.max(claim.sure, sure.till());
                }
            }
        }
        return claim.sure;
    }

    /** Why it is not held, if it has ended; or else {@link Fault#NONE}. */
    public Fault ending(Claim claim) {
        return switch (claim.phase) {
            case HELD -> isClosed ? Failure.CLOSED : Fault.NONE;
            case LOST -> Fault.of(Kind.LOST, String.valueOf(claim.reason));
            default -> isClosed ? Failure.CLOSED : Fault.of(Kind.MISUSE, "it was released already");
        };
    }

    private void requireHeld(Claim claim) {
        if (ending(claim) != Fault.NONE) {
            throw new Failure(ending(claim));
        }
    }

    void lose(Claim claim, String reason) {
        if (claim.reason == null) {
            forget(claim);
            claim.phase = Claim.Phase.LOST;
            claim.reason = reason;
            claim.doubt = null;
            claim.renounceOwner();
            wake(claim);
        }
    }

    /** Loses it for what the server reported, or else for this answer. */
    void lose(Claim claim, Fault answer) {
        String known = lossOf(claim.name, claim.token);
        lose(claim, known != null ? known : "gone (" + answer.word() + ")");
    }

    /** The command that asks whether the grant stands, for {@link #confirmed}. */
    public String[] check(Claim claim) {
        requireHeld(claim);
        return Claim.words("LOCK.FENCE", claim.name.key(), claim.token);
    }

    /** The command that adds a hold, for {@link #confirmed}. */
    public String[] enter(Claim claim, List<String> mode) {
        requireHeld(claim);
        return Claim.words("LOCK.ACQUIRE", claim.name.key(), claim.name.owner(), mode, "PX", Claim.millis(claim.lease),
                "HOLDS", claim.holds + 1, "TOKEN", claim.token);
    }

    /**
     * The command that gives the grant this lease, for {@link #renewed}. leaves: it also takes the grant out of its
     * session. Until it is answered, no POLL counts.
     */
    public String[] renew(Claim claim, long lease, boolean leaves) {
        requireHeld(claim);
        Release of = new Release(claim.name, claim.token);
        boolean isRepeated = claim.from == Claim.FAR && claim.node.leaves.contains(of);
        if (leaves && !isRepeated && claim.session != 0 && claim.session == claim.node.session) {
            claim.node.leaves.add(of);
        }
        claim.sure = Math.min(sure(claim), at + lease);
        claim.from = Claim.FAR;
        claim.node.soonest = Math.min(claim.node.soonest, claim.sure);
        return Claim.words("LOCK.RENEW", claim.name.key(), claim.name.owner(), "PX", Claim.millis(lease), "TOKEN",
                claim.token, leaves ? List.of("SESSION", 0) : List.of());
    }

    /** Applies what became of a renewal. */
    public void renewed(Claim claim, Answer answer, boolean leaves) {
        if (!answer.reply().fault().isSent()) {
            claim.from = at;
            if (leaves && answer.reply().isFault() && claim.session != 0) {
                claim.node.leaves.remove(new Release(claim.name, claim.token));
            }
        }
        confirmed(claim, answer);
        if (leaves) {
            claim.session = 0;
            claim.isHandedOver = true;
            claim.node.grants.remove(claim);
        }
    }

    /** Applies what became of a check, a re-entry or a renewal. */
    public void confirmed(Claim claim, Answer answer) {
        Reply reply = answer.reply();
        if (reply.fault().isSent()) {
            claim.renounceOwner();
        }
        if (reply.fault().isGone()) {
            lose(claim, reply.fault());
        }
        requireHeld(claim);
        if (reply.isFault()) {
            throw new Failure(reply.fault().at(claim.node.address));
        }
        if (isGrant(reply)) {
            claim.lease = leaseOf(reply);
            claim.sure = Math.max(sure(claim), answer.sent() + claim.lease);
        }
    }

    /** Forgets a grant that is left to others. */
    public void letGo(Claim claim) {
        forget(claim);
        claim.phase = Claim.Phase.RELEASED;
        claim.renounceOwner();
    }

    /** Takes a hold away, also from a grant that is lost. Returns the command for it: from here on it is not held. */
    public String[] release(Claim claim) {
        claim.holds = Math.max(0, claim.holds - 1);
        requireHeld(claim);
        if (claim.holds == 0) {
            forget(claim);
            claim.phase = Claim.Phase.RELEASED;
        }
        return claim.releaseCommand(claim.holds);
    }

    /** Applies what became of a release. */
    public void released(Claim claim, Answer answer) {
        Fault fault = answer.reply().fault();
        if (answer.wasOpen() || fault.isSent()) {
            claim.renounceOwner();
        }
        boolean isDone = claim.holds == 0 && answer.wasOpen() && lossOf(claim.name, claim.token) == null;
        if (fault == Fault.NONE || fault.isGone() && isDone) {
            return;
        }
        if (fault.isGone()) {
            lose(claim, fault);
            throw new Failure(ending(claim));
        }
        if (claim.holds == 0 && fault.isLasting()) { // the server would go on to renew the grant: leave its session
            claim.node.leaving |= claim.session != 0 && claim.session == claim.node.session;
        } else if (claim.holds == 0) { // else a re-entry may have come between
            finishLater(claim.node, claim.name, claim.token, claim.releaseCommand(0));
        }
        throw new Failure(fault.at(claim.node.address));
    }

    /**
     * Ends a grant whose maximum time is over, or whose fixed lease is. Returns the release to send, for {@link #finished};
     * or null, and then {@link #rest} says how long the grant lasts.
     */
    public String @Nullable [] end(Claim claim, long most) {
        if (claim.phase != Claim.Phase.HELD || rest(claim, most) > 0) {
            return null;
        }
        boolean isExpired = claim.isFixed && sure(claim) <= most;
        String[] command = claim.releaseCommand(0);
        finishLater(claim.node, claim.name, claim.token, command);
        lose(claim, isExpired ? "expired" : "its maximum time is over");
        return command;
    }

    /** How long a grant lasts that is not renewed, or has a maximum time. */
    public long rest(Claim claim, long most) {
        return (claim.isFixed ? Math.min(sure(claim), most) : most) - at;
    }

    /** Marks a grant that another node of the cluster may have. It is unsure until it is found. */
    void doubt(Claim claim, String reason) {
        claim.sure = sure(claim);
        if (!reason.equals("moved")) {
            claim.sure = Math.min(claim.sure, at);
        }
        claim.doubt = reason;
        claim.session = 0;
        wake(claim);
    }

    /** Applies what became of the RENEW of a grant that another node may have. The loop moves it to the session there. */
    public void found(Claim claim, @Nullable Node node, Answer answer) {
        if (claim.phase != Claim.Phase.HELD || claim.doubt == null) {
            return; // it was released meanwhile
        }
        if (node != null && isGrant(answer.reply()) && lossOf(claim.name, claim.token) == null) {
            claim.node.grants.remove(claim);
            node.grants.add(claim);
            claim.node = node;
            claim.doubt = null;
            claim.from = at;
            claim.sure = Math.max(claim.sure, answer.sent() + leaseOf(answer.reply()));
            node.soonest = Math.min(node.soonest, claim.sure);
            node.isOutside = true;
        } else if (claim.doubt.equals("moved") && answer.reply().fault().isPassing()) { // it is asked for again
            claim.doubt = null;
            claim.node.isOutside = true;
        } else {
            lose(claim, claim.doubt);
        }
    }

    /** Applies a grant. Returns false if the grant has to be given back. */
    boolean granted(Node node, Name name, long token, long session, long till) {
        Claim claim = claims.get(name);
        if (lossOf(name, token) != null) { // its loss was reported before: it is no grant
            if (claim != null && claim.isWaiting()) {
                set(claim, Claim.Phase.ASKED);
            }
            return true;
        }
        if (claim == null) {
            return false;
        }
        if (claim.phase != Claim.Phase.HELD || token > claim.token && !claim.isHandedOver) {
            claim.node.grants.remove(claim);
            claim.phase = Claim.Phase.HELD;
            claim.node = node;
            claim.token = token;
            claim.session = session;
            claim.sure = till;
            claim.from = at;
            node.grants.add(claim);
            node.soonest = Math.min(node.soonest, till);
        } else if (token > claim.token) {
            return false; // the user counts on the earlier one
        } else if (token < claim.token || claim.session == 0 || claim.node != node) {
            return true; // an earlier grant, or one that has left the session since
        } else {
            claim.sure = Math.max(sure(claim), till);
            claim.session = session;
            claim.from = Math.max(claim.from, at);
        }
        node.isOutside |= session != node.session;
        wake(claim);
        return true;
    }

    /** The command that lifts its token, for {@link #confirmed} and {@link #raised}. */
    public String[] raise(Claim claim, long token) {
        requireHeld(claim);
        return Claim.words("LOCK.RENEW", claim.name.key(), claim.name.owner(), "TOKEN", claim.token, "RAISE", token);
    }

    /** Follows the reply that has lifted the token of a grant. Its loss may have been reported before. */
    public void raised(Claim claim, long token) {
        claim.token = token;
        String reason = lossOf(claim.name, token);
        if (reason != null) {
            lose(claim, reason);
        }
    }

    static boolean isGrant(Reply reply) {
        return Reply.list(reply.value()).size() > 3;
    }

    static long leaseOf(Reply reply) {
        return TimeUnit.MILLISECONDS.toNanos(Reply.number(Reply.list(reply.value()).get(3)));
    }
}
