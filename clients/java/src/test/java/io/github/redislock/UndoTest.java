package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static io.github.redislock.TestServer.within;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.redislock.spi.ReplyError;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** What a call that was given up has brought, or brings yet, is taken back. */
class UndoTest extends LocksTest {
    private static final Duration LEASE = Duration.ofSeconds(4);

    private Locks locks(int port, HeldUpServer.Sending sending) {
        return closing(Locks.builder(new HeldUpServer(lockServer(port), sending)).service("tests").lease(LEASE).build());
    }

    /** A call whose connection has ended is sent again; the thread that sends it stands still until its time is over. */
    @Test
    void aCallIsNeverSentBehindItsUndo() throws Exception {
        for (boolean isNamed : List.of(false, true)) {
            TestServer server = server();
            TestServer proxy = proxy(server);
            AtomicInteger asked = new AtomicInteger();
            CountDownLatch told = new CountDownLatch(1);
            CountDownLatch sent = new CountDownLatch(1);
            Locks locks = locks(proxy.port, (word, call) -> {
                if (!word.equals("LOCK.ACQUIRE") || asked.incrementAndGet() != 3) {
                    return call.get();
                }
                try {
                    told.await(2, TimeUnit.SECONDS);
                    return call.get();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                } finally {
                    sent.countDown();
                }
            });
            locks.lock("warm").acquire(); // so that the keeper is open
            proxy.inject("cut", "LOCK.ACQUIRE");
            RedisLock lock = isNamed ? locks.lock("k").owner("mine") : locks.lock("k");
            var asking = new Other<>(lock::acquire);
            assertInstanceOf(LockUnavailableException.class, assertThrows(ExecutionException.class, asking::get).getCause());
            told.countDown();
            sent.await();
            eventually("it is free, or not kept", () -> server.run("EXISTS k").equals(0L));
            assertEquals(1, locks.held());
        }
    }

    private Locks releasingSoon(int port, AtomicInteger opened) {
        return closing(builder(Client.Topology.SINGLE, port).lease(Duration.ofSeconds(9))
                .releaseTimeout(Duration.ofMillis(500)).observer(new LockObserver() {
                    @Override
                    public void keeperOpened(String node) {
                        opened.incrementAndGet();
                    }
                }).build());
    }

    /** The release is refused for longer than it may take, and then the server writes again. */
    @Test
    void whatCouldNotBeTakenBackIsNotKept() throws Exception {
        TestServer server = server();
        TestServer proxy = proxy(server);
        AtomicInteger opened = new AtomicInteger();
        Locks locks = releasingSoon(proxy.port, opened);
        Grant other = locks.lock("other").acquire();
        proxy.inject(Map.of("delay", 400), "LOCK.ACQUIRE");
        CompletableFuture<Grant> asking = locks.lock("k").acquireAsync();
        eventually("it is asked for", () -> server.run("EXISTS k").equals(1L));
        server.run("CONFIG SET min-replicas-to-write 1");
        asking.cancel(false);
        within(Duration.ofSeconds(4), "the other is moved", () -> opened.get() == 2);
        server.run("CONFIG SET min-replicas-to-write 0");
        eventually("it is free", () -> server.run("EXISTS k").equals(0L));
        other.check();
        other.release();
    }

    /** They rely on its PINGs. */
    @Test
    void thoseWhoWaitHaveAKeeperAgainWhenNothingIsHeldAnyMore() throws Exception {
        TestServer server = server();
        AtomicInteger opened = new AtomicInteger();
        Locks locks = releasingSoon(server.port, opened);
        server.run("LOCK.ACQUIRE taken other EX 60");
        var waiting = new Other<>(() -> locks.lock("taken").waiting(LONG).acquire());
        eventually("it waits", () -> server.waiters("taken").size() == 1);
        Grant grant = locks.lock("k").acquire();
        server.run("CONFIG SET min-replicas-to-write 1");
        assertThrows(LockUnavailableException.class, grant::release);
        eventually("another keeper", () -> opened.get() == 2);
        server.run("CONFIG SET min-replicas-to-write 0");
        server.run("LOCK.RELEASE taken other");
        waiting.get().release();
    }

    /** It was carried out, its answer was lost, and then the memory was full. */
    @Test
    void aRefusalAfterALostAnswerLeavesNothing() throws Exception {
        TestServer server = server();
        TestServer proxy = proxy(server);
        Locks locks = locks(proxy.port, (word, call) -> {
            CompletableFuture<Object> answer = call.get();
            if (!word.equals("LOCK.ACQUIRE") && !word.equals("LOCK.RENEW")) {
                return answer;
            }
            return answer.whenComplete((reply, failure) -> {
                if (failure != null && !(failure instanceof ReplyError)) {
                    server.run("CONFIG SET maxmemory 1");
                }
            });
        });
        Grant warm = locks.lock("warm").acquire();
        proxy.inject("cut", "k");
        assertThrows(LockRefusedException.class, () -> locks.lock("k").acquire());
        server.run("CONFIG SET maxmemory 0");
        eventually("it is free", () -> server.run("EXISTS k").equals(0L));
        warm.release();
    }
}
