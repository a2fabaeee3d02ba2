package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** What an observer of the user's throws is its own affair. */
class ObserverTest extends LocksTest {
    private static final class Failing implements LockObserver {
        final AtomicInteger told = new AtomicInteger();

        private void fail() {
            told.incrementAndGet();
            throw new IllegalStateException("of the observer");
        }

        @Override
        public void acquired(String key, Duration waited) {
            fail();
        }

        @Override
        public void refused(String key, Duration waited, Throwable why) {
            fail();
        }

        @Override
        public void released(String key, Duration held) {
            fail();
        }

        @Override
        public void lost(String key, Duration held) {
            fail();
        }

        @Override
        public void keeperEnded(String node, Throwable why) {
            fail();
        }

        @Override
        public void keeperOpened(String node) {
            fail();
        }
    }

    @Test
    void whatAnObserverThrowsChangesNothing() throws Exception {
        TestServer server = server();
        Failing failing = new Failing();
        Locks locks = closing(builder(Client.Topology.SINGLE, server.port).lease(LONG).observer(failing).build());
        Grant grant = new Other<>(() -> locks.lock("k").acquire()).get(5, TimeUnit.SECONDS);
        assertTrue(locks.lock("k").tryAcquire().isEmpty());
        grant.release();

        Grant lost = locks.lock("k").acquire();
        AtomicInteger told = new AtomicInteger();
        lost.onLost(why -> told.incrementAndGet());
        server.run("DEL k");
        eventually("it is told", () -> told.get() == 1);
        assertThrows(LockLostException.class, lost::release);

        Grant kept = locks.lock("k").lease(Duration.ofSeconds(1)).acquire();
        int pings = server.calls("ping");
        eventually("it is kept", () -> server.calls("ping") > pings + 2);
        kept.check();
        locks.close();
        assertEquals(0L, server.run("EXISTS k"));
        assertTrue(failing.told.get() >= 8, failing.told + " times");
    }
}
