package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** The claims, the calls under way, the losses that they may not know, and the releases that are not finished. */
public class Ledger {
    /** A grant; without a token, all that its owner has, a wait too. */
    record Release(Name name, long token) {}

    record Unfinished(Node node, String[] words) {}

    private record Loss(String reason, long at) {}

    /** The time of this call. The caller sets it, each time later, and each call that begins moves it on. */
    public long at;
    private List<Runnable> news = new ArrayList<>();

    final long lease;
    final long reply;
    final boolean isCluster;
    boolean isClosed;
    final Map<Name, Claim> claims = new LinkedHashMap<>(); // waits, and grants that are held, in the order of asking
    final Map<Release, Unfinished> unfinished = new LinkedHashMap<>();
    final Map<Long, Name> calls = new LinkedHashMap<>(); // under way, by the time of their beginning
    private final Map<Release, Loss> losses = new HashMap<>();

    Ledger(long lease, long reply, boolean isCluster) {
        this.lease = lease;
        this.reply = reply;
        this.isCluster = isCluster;
    }

    /** Takes the notifications, which are run without the mutex. */
    public List<Runnable> takeNews() {
        if (news.isEmpty()) {
            return List.of(); // the caller goes through it without the mutex
        }
        List<Runnable> taken = news;
        news = new ArrayList<>();
        return taken;
    }

    void wake(Claim claim) {
        news.add(claim.wake);
    }

    void resend(Node node, String[] command) {
        news.add(() -> node.resend.accept(command));
    }

    /** Registers a call before it is sent. An owner is not used again while a call in its name is unanswered. */
    public long beginCall(Name name) {
        calls.put(++at, name);
        return at;
    }

    /** Follows the application of the reply. */
    public void endCall(long call) {
        calls.remove(call);
        if (!losses.isEmpty()) {
            long first = calls.isEmpty() ? Long.MAX_VALUE : calls.keySet().iterator().next();
            losses.values().removeIf(loss -> loss.at < first); // no later reply can name it
        }
    }

    /** A loss precedes the reply that names the grant while a call is under way. */
    void rememberLoss(Release of, String reason) {
        if (!calls.isEmpty()) {
            losses.put(of, new Loss(reason, at));
        }
    }

    @Nullable String lossOf(Name name, long token) {
        Loss loss = losses.get(new Release(name, token));
        return loss == null ? null : loss.reason;
    }

    /** The owner that the task may use for another call; null: it needs a fresh one. */
    public @Nullable String usableOwner(OwnerOfTask task) {
        Stream<Name> used = Stream.concat(calls.values().stream(), unfinished.keySet().stream().map(Release::name));
        if (task.owner != null && used.anyMatch(name -> name.owner().equals(task.owner))) {
            task.owner = null;
        }
        return task.owner;
    }

    /** Has the loop repeat a release, which is of all holds and without the session. A token of 0: of the wait too. */
    void finishLater(Node node, Name name, long token) {
        finishLater(node, name, token, releaseAll(name, token));
    }

    static String[] releaseAll(Name name, long token) {
        return Claim.words("LOCK.RELEASE", name.key(), name.owner(), "ALL", token != 0 ? List.of("TOKEN", token) : List.of());
    }

    void finishLater(Node node, Name name, long token, String[] words) {
        unfinished.put(new Release(name, token), new Unfinished(node, words));
    }

    /** Applies the reply to an unfinished release of this token; of 0: to the cancel of a wait. */
    public void finished(Name name, long token, Reply reply) {
        Release of = new Release(name, token);
        Unfinished how = unfinished.get(of);
        if (how != null && !reply.fault().isPassing()) {
            unfinished.remove(of);
            how.node.leaving |= of.token != 0 && reply.isFault() && !reply.fault().isGone();
        }
    }

    void endWait(Claim wait, Fault why) {
        if (wait.isWaiting()) {
            forget(wait);
            wait.ending = why;
            set(wait, Claim.Phase.OVER);
        }
    }

    void set(Claim wait, Claim.Phase phase) {
        wait.phase = phase;
        wait.session = 0;
        wake(wait);
    }

    void forget(Claim claim) {
        if (claims.remove(claim.name, claim)) {
            claim.node.grants.remove(claim);
        }
    }
}
