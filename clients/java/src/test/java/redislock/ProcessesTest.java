package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static redislock.TestServer.eventually;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import redislock.RedisLocks.RedisLock;

class ProcessesTest extends LocksTest {
    private Process holder(TestServer server) throws Exception {
        String java = System.getProperty("java.home") + "/bin/java";
        Process process = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"),
                "redislock.Holder", client.name(), "" + server.port)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        closing(() -> process.destroyForcibly().waitFor());
        assertEquals("held", process.inputReader().readLine());
        return process;
    }

    private static void signal(Process process, String name) throws Exception {
        new ProcessBuilder("kill", "-" + name, "" + process.pid()).start().waitFor();
    }

    private record Granted(long token, long at) {}

    private Other<Granted> waiter(TestServer server) throws Exception {
        RedisLocks locks = locks(server.port, LONG);
        var waiter = new Other<>(() -> {
            RedisLock lock = locks.lock("k");
            return new Granted(lock.token(), System.nanoTime());
        });
        eventually("a waiter", () -> server.waiters("k").size() == 1);
        return waiter;
    }

    @Test
    void aProcessThatIsEndedReleases() throws Exception {
        TestServer server = server();
        Process holder = holder(server);
        eventually("renewals", () -> server.calls("lock.renew") > 3);
        var waiter = waiter(server);
        long begun = System.nanoTime();
        signal(holder, "TERM");
        long took = TimeUnit.NANOSECONDS.toMillis(waiter.get().at - begun);
        assertEquals(1, server.calls("lock.release"), "not released but expired after " + took + " ms");
        assertEquals(143, holder.waitFor());
    }

    @Test
    void afterAKilledProcessTheLeaseEndsAndTheNextGoesOn() throws Exception {
        TestServer server = server();
        Process holder = holder(server);
        eventually("renewals", () -> server.calls("lock.renew") > 3);
        long token = (Long) server.info("k", "token");
        var waiter = waiter(server);
        long begun = System.nanoTime();
        signal(holder, "KILL");
        Granted granted = waiter.get();
        long took = TimeUnit.NANOSECONDS.toMillis(granted.at - begun);
        assertTrue(took > 900 && took < 3000, "after " + took + " ms");
        assertTrue(granted.token > token);
        assertEquals(0, server.calls("lock.release"));
    }
}
