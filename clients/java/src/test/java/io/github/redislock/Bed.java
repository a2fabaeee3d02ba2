package io.github.redislock;

import static io.github.redislock.TestServer.eventually;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redislock.spi.LockServer;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;

/** What the tests with servers have in common. */
abstract class Bed extends TestBed {
    LockServer connect(Client client, int port, String user) {
        Client.Connected connected = client.connect(port, user);
        closing(connected.application());
        return connected.server();
    }

    Locks.Builder builder(Client client, TestServer server) {
        return Locks.builder(connect(client, server.port, null)).service("test");
    }

    Locks locks(Client client, TestServer server) {
        return closing(builder(client, server).build());
    }

    /** Does this by another thread. */
    static <T> FutureTask<T> meanwhile(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task, "meanwhile");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    static void waiting(TestServer server, String key, int many) throws InterruptedException {
        eventually(many + " wait", () -> server.waiters(key).size() == many);
    }

    static LockLostException isLost(Grant grant) throws InterruptedException {
        eventually("a loss", () -> grant.loss() != null);
        return grant.loss();
    }

    /** Nothing is kept of any lock. */
    static void isIdle(Locks locks) throws InterruptedException {
        eventually("nothing is left", () -> locks.core.timer.getQueue().isEmpty()
                && locks.core.atomically(() -> locks.core.loops.values().stream().allMatch(loop -> loop.node.isIdle())));
    }

    /** Throws within this time. */
    static <E extends Throwable> E thrown(Class<E> kind, long withinMs, org.junit.jupiter.api.function.Executable call) {
        long begun = System.nanoTime();
        E thrown = assertThrows(kind, call);
        Duration took = Duration.ofNanos(System.nanoTime() - begun);
        assertTrue(took.toMillis() <= withinMs, "after " + took);
        return thrown;
    }
}
