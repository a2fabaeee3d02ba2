package io.github.redislock;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import io.github.redislock.spi.ServerConnection;
import io.github.redislock.spi.ServerNode;
import io.github.redislock.testing.StandIn;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Faults of the network and the server, and those of earlier clients, that the common trial does not have. */
class FaultsTest extends Bed {
    /** Many fail in an outage: nothing of them is left in memory. */
    @ParameterizedTest
    @EnumSource
    void afterAnOutage(Client client) throws Exception {
        TestServer server = start();
        Locks locks = locks(client, server);
        locks.get("k").lock().release();
        server.order("kill");
        List<FutureTask<Boolean>> all = new ArrayList<>();
        for (int n = 0; n < 50; n++) {
            RedisLock lock = locks.get("k" + n);
            all.add(meanwhile(() -> {
                String said = thrown(LockUnavailableException.class, 2500, lock::tryLock).getMessage();
                return said.contains("refused") || said.contains("no reply") || said.contains("no connection");
            }));
        }
        for (FutureTask<Boolean> one : all) {
            assertTrue(one.get());
        }
        server.order("restart");
        locks.get("k").tryLock().orElseThrow().release();
        isIdle(locks);
    }

    /** A server that has failed for a while answers again: a call ends the pause of the loop, which is half a second then. */
    @Test
    void aCallEndsThePauseAfterFailures() throws Exception {
        class Node implements ServerNode, ServerConnection {
            private final Semaphore failures = new Semaphore(0);
            private volatile ServerNode server; // null: it is down

            @Override
            public List<Reply> call(long limit, List<String[]> commands) {
                ServerNode up = server;
                if (up != null) {
                    return up.call(limit, commands);
                }
                failures.release(commands.get(0)[1].equals("POLL") ? 1 : 0);
                return Collections.nCopies(commands.size(), Reply.of(Fault.none(false, "refused")));
            }

            @Override
            public List<Reply> send(long limit, List<String[]> commands) {
                return call(limit, commands);
            }

            @Override
            public ServerConnection connection() {
                return this;
            }

            @Override
            public String address() {
                return "stand-in";
            }

            @Override
            public void close() {}
        }
        Node node = new Node();
        node.server = (ServerNode) new StandIn().server();
        Locks locks = closing(Locks.builder(node).lease(Duration.ofSeconds(6)).build());
        locks.get("k").lock();
        long best = Long.MAX_VALUE; // of some outages: the machine may be busy
        for (int n = 0; n < 5 && best > 400; n++) {
            node.server = null;
            node.failures.drainPermits();
            node.failures.acquire(7);
            node.server = (ServerNode) new StandIn().server(); // which does not know the session
            long begun = System.nanoTime();
            locks.get("k" + n).lock();
            best = Math.min(best, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun));
        }
        assertTrue(best <= 400, "after " + best + " ms");
    }
}
