package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.ReplyError;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The last who asks in a name has the lock: whoever had it before, and has not heard of that yet, takes nothing from it. */
class OvertakenTest extends LocksTest {
    private TestServer server;
    private Locks others;

    @BeforeEach
    void start() {
        server = server();
        others = locks(server.port);
        others.lock("bystander").acquireAsync().join(); // so that its keeper is open
    }

    private Locks locks(HeldUpServer.Sending sending) {
        return closing(Locks.builder(new HeldUpServer(lockServer(server.port), sending)).service("tests").lease(LONG).build());
    }

    private static Grant taken(Locks by) {
        return by.lock("k").owner("mine").acquireAsync().join();
    }

    /** What the other process has, and the connection that keeps it there. */
    private record Second(Grant grant, long keeper) {}

    private Second second() {
        return second(taken(others));
    }

    private Second second(Grant grant) {
        return new Second(grant, server.keptBy("k"));
    }

    /** It has the lock as it asked for it. */
    private void stands(Second second) {
        Grant grant = second.grant;
        assertEquals(second.keeper, server.keptBy("k"));
        assertEquals(grant.token(), server.info("k", "token"));
        assertEquals(LONG.toMillis(), server.info("k", "lease-ms"));
        assertEquals(1L, server.info("k", "limit"));
        grant.check();
        grant.release();
    }

    private static final List<Consumer<Grant>> ENDS = List.of(Grant::release, grant -> Attempt.await(grant.releaseAsync()));
    private static final List<Consumer<Grant>> CHANGES = List.of(grant -> grant.extend(Duration.ofSeconds(5)),
            grant -> grant.detach(Duration.ofSeconds(5)), Grant::downgrade);

    /** Its keeper is being closed, or is closed already. */
    private void aLateCallTakesNothing(List<Consumer<Grant>> calls) {
        for (int n = 0; n < 200; n++) {
            Locks locks = locks(server.port);
            Grant first = taken(locks);
            Second second = n % 4 < 2 ? second() : second(others.adopt("k", "mine", first.token()));
            Consumer<Grant> call = calls.get(n % calls.size());
            assertThrows(LockLostException.class, () -> call.accept(first), "in round " + n);
            stands(second);
            locks.close();
        }
    }

    @Test
    void aLateReleaseTakesNothing() {
        aLateCallTakesNothing(ENDS);
    }

    @Test
    void aLateChangeChangesNothing() {
        aLateCallTakesNothing(CHANGES);
    }

    /** The other asks when the call has chosen its connection. */
    @Test
    void aCallThatIsBeingSentTakesNothing() {
        for (Consumer<Grant> call : List.of(ENDS, CHANGES).stream().flatMap(List::stream).toList()) {
            AtomicBoolean isArmed = new AtomicBoolean();
            AtomicBoolean isOther = new AtomicBoolean();
            CompletableFuture<Second> second = new CompletableFuture<>();
            Locks locks = locks((word, send) -> {
                if (isArmed.get() && word.matches("LOCK.RE.*") && isOther.compareAndSet(false, true)) {
                    second.complete(second());
                }
                return send.get();
            });
            Grant first = taken(locks);
            isArmed.set(true);
            assertThrows(LockLostException.class, () -> call.accept(first));
            stands(second.join());
        }
    }

    /** It is held for so long at most, and is kept no more for the rest of that. */
    @Test
    void theEndOfAKeepingEndsNoOther() throws Exception {
        AtomicBoolean isOther = new AtomicBoolean();
        CompletableFuture<Second> second = new CompletableFuture<>();
        Locks locks = locks((word, send) -> {
            if (word.equals("LOCK.RENEW") && isOther.compareAndSet(false, true)) {
                second.complete(second());
            }
            return send.get();
        });
        Grant first = locks.lock("k").owner("mine").atMost(LONG.plusMillis(300)).acquireAsync().join();
        eventually("it is told", () -> !first.isHeld());
        stands(second.join());
    }

    /** From then on nothing tells that another has it. */
    @Test
    void whatIsKeptNoMoreIsLookedAt() throws Exception {
        Locks locks = locks(server.port);
        Grant first = locks.lock("k").owner("mine").atMost(LONG.plusMillis(300)).acquireAsync().join();
        eventually("it is kept no more", () -> server.keptBy("k") == 0);
        Second second = second();
        assertThrows(LockLostException.class, first::release);
        assertEquals(second.keeper, server.keptBy("k"));
        second.grant.check();
        second.grant.release();
    }

    /** What a wait gave is not kept yet: the connection of the wait is not closed. */
    @Test
    void aReleaseOfWhatAWaitGaveTakesNothing() throws Exception {
        Locks locks = locks(server.port);
        for (Consumer<Grant> call : List.of(ENDS, CHANGES).stream().flatMap(List::stream).toList()) {
            server.run("LOCK.ACQUIRE k other EX 60");
            var waiting = new Other<>(() -> locks.lock("k").owner("mine").waiting(LONG).acquire());
            eventually("it waits", () -> server.waiters("k").size() == 1);
            server.run("LOCK.RELEASE k other");
            Grant first = waiting.get();
            Second second = second();
            assertThrows(LockLostException.class, () -> call.accept(first));
            stands(second);
        }
    }

    /** The answer to the wait has not been read when the caller gives up. */
    @Test
    void aWaitThatIsCalledOffTakesNothing() throws Exception {
        CompletableFuture<Boolean> isRead = new CompletableFuture<>();
        AtomicInteger asked = new AtomicInteger();
        Locks locks = locks((word, send) -> {
            CompletableFuture<Object> answer = send.get();
            return !word.equals("LOCK.ACQUIRE") || asked.incrementAndGet() < 2 ? answer
                    : answer.thenCombine(isRead, (reply, nothing) -> reply);
        });
        server.run("LOCK.ACQUIRE k other EX 60");
        CompletableFuture<Grant> waiting = locks.lock("k").owner("mine").waiting(LONG).acquireAsync();
        eventually("it waits", () -> server.waiters("k").size() == 1);
        server.run("LOCK.RELEASE k other");
        eventually("it has come", () -> "mine".equals(server.info("k", "owner")));
        Second second = second();
        waiting.cancel(false);
        Thread.sleep(100);
        isRead.complete(true);
        Thread.sleep(200);
        stands(second);
    }

    /** The wait lasts long, and its grant is kept before the caller is told. */
    @Test
    void whatAWaitGaveLateIsNotTakenBack() throws Exception {
        AtomicBoolean isOther = new AtomicBoolean();
        CompletableFuture<Second> second = new CompletableFuture<>();
        Locks locks = closing(Locks.builder(new HeldUpServer(lockServer(server.port), (word, send) -> {
            if (word.matches("LOCK.(RENEW|HOLDERS)") && isOther.compareAndSet(false, true)) {
                second.complete(second());
            }
            return send.get();
        })).service("tests").lease(SHORT).build());
        server.run("LOCK.ACQUIRE k other EX 60");
        CompletableFuture<Grant> waiting = locks.lock("k").owner("mine").waiting(LONG).acquireAsync();
        eventually("it waits", () -> server.waiters("k").size() == 1);
        Thread.sleep(600);
        server.run("LOCK.RELEASE k other");
        eventually("the other has it", second::isDone);
        Grant first = waiting.get();
        eventually("it is told", () -> !first.isHeld());
        assertEquals(second.join().keeper, server.keptBy("k"));
        second.join().grant.check();
    }

    /** It was refused for a moment, in which the other has asked. */
    @Test
    void aRenewalIsNotSentAgainWithoutALook() throws Exception {
        AtomicBoolean isOther = new AtomicBoolean();
        CompletableFuture<Second> second = new CompletableFuture<>();
        Locks locks = locks((word, send) -> {
            if (word.equals("LOCK.RENEW") && isOther.compareAndSet(false, true)) {
                second.complete(second());
                return CompletableFuture.failedFuture(new ReplyError("LOADING for a moment"));
            }
            return send.get();
        });
        Grant first = taken(locks);
        server.run("CLIENT KILL ID " + server.keptBy("k"));
        eventually("the other has it", second::isDone);
        eventually("one of them is told", () -> !first.isHeld() || !second.join().grant.isHeld());
        assertFalse(first.isHeld());
        stands(second.join());
    }
}
