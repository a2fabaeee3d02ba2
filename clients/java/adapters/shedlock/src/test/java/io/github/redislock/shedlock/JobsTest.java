package io.github.redislock.shedlock;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.redislock.LockException;
import io.github.redislock.LockMisuseException;
import io.github.redislock.Locks;
import io.github.redislock.jedis.JedisServer;
import io.github.redislock.TestBed;
import io.github.redislock.TestServer;
import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockAssert;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.junit.jupiter.api.Test;

/** What ShedLock promises to jobs on several nodes, each with a provider of its own. */
class JobsTest extends TestBed {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final String KEY = "job-lock:default:job";

    private final TestServer server = start();

    private Locks node() {
        return closing(Locks.builder(JedisServer.of("127.0.0.1", server.port)).service("jobs")
                .lease(Duration.ofSeconds(1)).build());
    }

    private static LockConfiguration job(Duration most, Duration least) {
        return new LockConfiguration(Instant.now(), "job", most, least);
    }

    private boolean isLocked() {
        return server.run("EXISTS " + KEY).equals(1L);
    }

    @Test
    void aJobRunsOnOneOfTwoNodes() throws Throwable {
        LockingTaskExecutor one = new DefaultLockingTaskExecutor(new RedisLockProvider(node()));
        LockingTaskExecutor two = new DefaultLockingTaskExecutor(new RedisLockProvider(node()));
        AtomicInteger runs = new AtomicInteger();
        one.executeWithLock((LockingTaskExecutor.Task) () -> {
            LockAssert.assertLocked();
            runs.incrementAndGet();
            CompletableFuture.runAsync(() -> // in another thread, because ShedLock lets this one enter again
                    two.executeWithLock((Runnable) runs::incrementAndGet, job(MINUTE, Duration.ZERO))).get();
        }, job(MINUTE, Duration.ZERO));
        assertThat(runs).hasValue(1);
        two.executeWithLock((Runnable) runs::incrementAndGet, job(MINUTE, Duration.ZERO));
        assertThat(runs).hasValue(2);
    }

    @Test
    void lockAtLeastForOutlivesTheNode() throws Exception {
        for (boolean isRenewed : new boolean[] {false, true}) {
            Locks locks = node();
            RedisLockProvider provider = new RedisLockProvider(locks);
            SimpleLock lock = (isRenewed ? provider.renewed() : provider).lock(job(MINUTE, Duration.ofSeconds(3))).orElseThrow();
            lock.unlock();
            locks.close();
            assertThat((Long) server.run("PTTL " + KEY)).isBetween(1L, 3000L);
            eventually("it is free", () -> !isLocked());
        }
    }

    @Test
    void aRenewedLockOutlivesLockAtMostForAndIsFreeSoonAfterDeath() throws Exception {
        Process node = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                Node.class.getName(), String.valueOf(server.port)).redirectErrorStream(true).start();
        closing(node::destroyForcibly);
        assertThat(node.inputReader().readLine()).isEqualTo("extended");
        assertThat(isLocked()).isTrue();
        node.destroyForcibly().waitFor();
        eventually("it is free", () -> !isLocked());
    }

    /** A node whose job never ends. */
    static final class Node {
        public static void main(String[] arguments) throws InterruptedException {
            Locks locks = Locks.builder(JedisServer.of("127.0.0.1", Integer.parseInt(arguments[0])))
                    .lease(Duration.ofSeconds(1)).build();
            SimpleLock lock = new RedisLockProvider(locks).renewed().lock(job(Duration.ofMillis(100), Duration.ZERO)).orElseThrow();
            Thread.sleep(2500);
            System.out.println(lock.extend(Duration.ofMillis(100), Duration.ZERO).isPresent() ? "extended" : "lost");
            Thread.sleep(60_000);
        }
    }

    @Test
    void aLockOfShedLocksOwnProviderCounts() {
        ExtensibleLockProvider provider = new RedisLockProvider(node());
        server.run("SET " + KEY + " ADDED:x NX PX 60000");
        assertThatThrownBy(() -> provider.lock(job(MINUTE, Duration.ZERO))).isInstanceOf(LockMisuseException.class);
        server.run("DEL " + KEY);
        SimpleLock lock = provider.lock(job(MINUTE, Duration.ZERO)).orElseThrow();
        assertThat(server.run("SET " + KEY + " ADDED:x NX PX 60000")).isNull();
        lock.unlock();
    }

    @Test
    void withoutAServerNoJobRuns() {
        LockingTaskExecutor executor = new DefaultLockingTaskExecutor(new RedisLockProvider(node()));
        server.order("kill");
        AtomicInteger runs = new AtomicInteger();
        assertThatThrownBy(() -> executor.executeWithLock((Runnable) runs::incrementAndGet, job(MINUTE, Duration.ZERO)))
                .isInstanceOf(LockException.class);
        assertThat(runs).hasValue(0);
        server.order("restart");
    }

    /** ShedLock unlocks in a finally: what is thrown there hides what the job has thrown. */
    @Test
    void aReleaseThatFailsHidesNoErrorOfTheJob() {
        LockingTaskExecutor executor = new DefaultLockingTaskExecutor(new RedisLockProvider(node()));
        IllegalStateException own = new IllegalStateException("the job's own");
        for (Duration least : new Duration[] {Duration.ZERO, MINUTE}) {
            assertThatThrownBy(() -> executor.executeWithLock((Runnable) () -> {
                server.order("kill");
                throw own;
            }, job(MINUTE, least))).isSameAs(own);
            server.order("restart");
        }
    }
}
