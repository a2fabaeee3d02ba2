package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import io.github.redislock.spi.Reply;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** The rules of what is waited for. */
public class Waits extends Grants {
    /**
     * What the caller of an acquire does next: it sends an ACQUIRE, in this session, as the call of this number, which is
     * also its time; or without words it waits for so long to be woken.
     */
    public record Step(String @Nullable [] words, long session, long call, long rest) {
        static Step rest(long rest) {
            return new Step(null, 0, 0, rest);
        }
    }

    private static final Fault NO_ANSWER = Fault.none(false, "no answer in time");

    Waits(long lease, long reply, boolean isCluster) {
        super(lease, reply, isCluster);
    }

    /** Registers a wait before its call is sent: its event may arrive before its reply. */
    public void ask(Claim wait) {
        if (isClosed) {
            throw new Failure(Failure.CLOSED);
        }
        if (claims.putIfAbsent(wait.name, wait) != null) {
            throw new Failure(Fault.of(Kind.MISUSE, "this owner already waits for the lock or holds it"));
        }
    }

    /** The next step of the caller of an acquire; null: it has the grant. */
    public @Nullable Step next(Claim wait) {
        Node node = wait.node;
        switch (wait.phase) {
            case OVER -> throw new Failure(wait.ending);
            case LOST, RELEASED -> throw new Failure(ending(wait));
            case HELD -> {
                if (sure(wait) <= at) {
                    return Step.rest(TimeUnit.MILLISECONDS.toNanos(5)); // the next POLL makes it sure
                }
                wait.isHandedOver = !wait.isFixed; // else when it has left the session
                return null;
            }
            default -> { }
        }
        if (node.session == 0 && node.fault.isLasting()) {
            throw new Failure(node.fault.at(node.address));
        }
        boolean isInLine = wait.phase == Claim.Phase.IN_LINE;
        long end = isInLine ? wait.last : wait.askedEnd;
        if (at >= end && isInLine && wait.session == node.session) {
            throw new Failure(Fault.of(Kind.BUSY, "the time to wait is over"));
        }
        if (at >= end) {
            Fault cause = wait.cause != Fault.NONE ? wait.cause : node.fault != Fault.NONE ? node.fault : NO_ANSWER;
            throw new Failure(cause.at(node.address));
        }
        if (isInLine || node.session == 0) {
            return Step.rest(end - at);
        }
        wait.open++;
        return new Step(wait.acquireCommand(node.session, at), node.session, beginCall(wait.name), 0);
    }

    /** Applies the reply to an ACQUIRE that was sent at this time to this server, in this session. */
    public void answered(Claim wait, Node node, long session, long sent, Reply reply) {
        Fault fault = reply.fault();
        if (fault.isSent()) {
            wait.renounceOwner();
        } else {
            wait.open--;
        }
        if (fault.isLasting()) {
            endWait(wait, fault.at(node.address));
        } else if (reply.isFault()) {
            wait.cause = fault;
            if (fault.is("NOSESSION") && session == node.session) {
                sessionEnded(node);
            }
            if (fault.redirects() && wait.phase == Claim.Phase.IN_LINE && wait.session != node.session) {
                set(wait, Claim.Phase.ASKED); // its place has gone
            }
        } else if (isGrant(reply)) {
            long token = Reply.number(Reply.list(reply.value()).get(0));
            if (!granted(node, wait.name, token, session, sent + leaseOf(reply))) {
                finishLater(node, wait.name, token);
            }
        } else if (reply.value() == null) {
            endWait(wait, Fault.of(Kind.BUSY, "it is not free"));
        } else if (wait.isWaiting()) {
            // A call that was sent before the end of a place may name that place.
            if (node == wait.node && session == node.session && sent > wait.endedAt) {
                wait.phase = Claim.Phase.IN_LINE;
                wait.session = session;
            }
        } else if (wait.phase != Claim.Phase.HELD) {
            finishLater(node, wait.name, 0);
        }
    }

    /** Forgets a wait. Returns its cancel, for {@link #finished}, if the server may know it; or null. */
    public String @Nullable [] giveUp(Claim wait) {
        boolean isKnown = wait.open > 0 || wait.phase == Claim.Phase.IN_LINE || wait.phase == Claim.Phase.HELD;
        if (wait.phase != Claim.Phase.LOST && wait.phase != Claim.Phase.RELEASED) {
            forget(wait);
            wait.phase = Claim.Phase.OVER;
        }
        if (isKnown) {
            finishLater(wait.node, wait.name, 0);
            wait.renounceOwner(); // an event of this wait may arrive after the cancel
        }
        return isKnown ? releaseAll(wait.name, 0) : null;
    }

    /** Applies the end of a wait without a grant. */
    void ended(Claim wait, String why) {
        Fault fault = Fault.reply(why);
        if (why.equals("timeout") || why.equals("cancelled")) {
            endWait(wait, Fault.of(Kind.BUSY, "the wait has ended: " + why));
        } else if (fault.isPassing()) {
            set(wait, Claim.Phase.ASKED);
            wait.cause = fault;
            wait.endedAt = at;
        } else {
            endWait(wait, fault.at(wait.node.address));
        }
    }

    /** Forgets the session. The leases of its grants run on. */
    public void sessionEnded(Node node) {
        for (Claim grant : node.grants) {
            grant.sure = sure(grant);
        }
        node.session = 0;
        node.sures.clear();
        node.leaves.clear();
    }
}
