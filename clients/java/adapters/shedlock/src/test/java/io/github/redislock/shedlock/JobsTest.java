package io.github.redislock.shedlock;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.redislock.LockException;
import io.github.redislock.LockMisuseException;
import io.github.redislock.Locks;
import io.github.redislock.TestReadme;
import io.github.redislock.TestServer;
import io.github.redislock.TestServers;
import io.github.redislock.jedis.JedisServer;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.atomic.AtomicInteger;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockAssert;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockExtender;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.support.KeepAliveLockProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;

/** What ShedLock promises to jobs on several nodes, each with a provider of its own. */
class JobsTest {
    private static final Duration MINUTE = Duration.ofMinutes(1);

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private TestServer server;

    @BeforeEach
    void start() {
        server = TestServers.start();
    }

    @AfterEach
    void end() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
        server.order("end");
    }

    private Locks node() {
        Locks locks = Locks.builder(JedisServer.of("127.0.0.1", server.port)).service("jobs")
                .replyTimeout(Duration.ofSeconds(10)).build();
        open.push(locks);
        return locks;
    }

    private static LockConfiguration job(Duration most, Duration least) {
        return new LockConfiguration(Instant.now(), "job", most, least);
    }

    private boolean isLocked() {
        return server.run("EXISTS job-lock:default:job").equals(1L);
    }

    @Test
    void aJobRunsOnOneOfTwoNodes() throws Throwable {
        LockingTaskExecutor one = new DefaultLockingTaskExecutor(new RedisLockProvider(node()));
        LockingTaskExecutor two = new DefaultLockingTaskExecutor(new RedisLockProvider(node()));
        AtomicInteger runs = new AtomicInteger();
        one.executeWithLock((LockingTaskExecutor.Task) () -> {
            LockAssert.assertLocked();
            runs.incrementAndGet();
            CompletableFuture.runAsync(() -> // a thread for itself: ShedLock lets one enter again
                    two.executeWithLock((Runnable) runs::incrementAndGet, job(MINUTE, Duration.ZERO))).get();
        }, job(MINUTE, Duration.ZERO));
        assertThat(runs).hasValue(1);
        two.executeWithLock((Runnable) runs::incrementAndGet, job(MINUTE, Duration.ZERO));
        assertThat(runs).hasValue(2);
    }

    @Test
    void environmentsAreApart() {
        Locks locks = node();
        SimpleLock test = new RedisLockProvider(locks, "test").lock(job(MINUTE, Duration.ZERO)).orElseThrow();
        SimpleLock live = new RedisLockProvider(locks, "live").lock(job(MINUTE, Duration.ZERO)).orElseThrow();
        assertThat(server.run("EXISTS job-lock:test:job job-lock:live:job")).isEqualTo(2L);
        test.unlock();
        live.unlock();
    }

    @Test
    void lockAtLeastForOutlivesTheNode() throws Exception {
        for (boolean isKept : new boolean[] {false, true}) {
            Locks locks = node();
            RedisLockProvider provider = new RedisLockProvider(locks);
            SimpleLock lock = (isKept ? provider.freedAfterDeath(Duration.ofSeconds(1)) : provider)
                    .lock(job(MINUTE, Duration.ofSeconds(3))).orElseThrow();
            long begun = System.nanoTime();
            lock.unlock();
            locks.close();
            assertThat(isLocked()).isTrue();
            eventually("it is free", () -> !isLocked());
            assertThat(Duration.ofNanos(System.nanoTime() - begun)).isBetween(Duration.ofMillis(2500), Duration.ofSeconds(5));
        }
    }

    @Test
    void lockAtMostForEndsTheLockOfAJobThatHangs() throws Exception {
        ExtensibleLockProvider one = new RedisLockProvider(node());
        ExtensibleLockProvider two = new RedisLockProvider(node());
        SimpleLock hanging = one.lock(job(Duration.ofMillis(700), Duration.ZERO)).orElseThrow();
        eventually("it is free", () -> !isLocked());
        SimpleLock next = two.lock(job(MINUTE, Duration.ZERO)).orElseThrow();
        hanging.unlock(); // it has gone to another, which keeps it
        assertThat(isLocked()).isTrue();
        next.unlock();
        assertThat(isLocked()).isFalse();
    }

    @Test
    void aKeptLockIsFreeSoonAfterDeath() throws Exception {
        Process node = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "-cp",
                System.getProperty("surefire.test.class.path", System.getProperty("java.class.path")),
                Node.class.getName(), String.valueOf(server.port)).redirectErrorStream(true).start();
        open.push(node::destroyForcibly);
        assertThat(node.inputReader().readLine()).isEqualTo("locked");
        Thread.sleep(2000);
        assertThat(isLocked()).isTrue();
        node.destroyForcibly().waitFor();
        ExtensibleLockProvider other = new RedisLockProvider(node());
        assertThat(other.lock(job(MINUTE, Duration.ZERO))).isEmpty();
        eventually("it is free", () -> !isLocked());
        other.lock(job(MINUTE, Duration.ZERO)).orElseThrow().unlock();
    }

    /** A node whose job never ends. */
    static final class Node {
        public static void main(String[] arguments) throws InterruptedException {
            Locks locks = Locks.builder(JedisServer.of("127.0.0.1", Integer.parseInt(arguments[0])))
                    .replyTimeout(Duration.ofSeconds(20)).build();
            new RedisLockProvider(locks).freedAfterDeath(Duration.ofSeconds(1))
                    .lock(job(Duration.ofHours(1), Duration.ZERO)).orElseThrow();
            System.out.println("locked");
            Thread.sleep(60_000);
        }
    }

    @Test
    void keepAliveExtendsALongJob() throws Exception {
        ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
        open.push(timer::shutdownNow);
        var constructor = KeepAliveLockProvider.class.getDeclaredConstructor(
                ExtensibleLockProvider.class, ScheduledExecutorService.class, Duration.class);
        constructor.setAccessible(true); // the public one takes 30 s or more
        LockProvider kept = constructor.newInstance(new RedisLockProvider(node()), timer, Duration.ofSeconds(1));
        SimpleLock lock = kept.lock(job(Duration.ofSeconds(1), Duration.ZERO)).orElseThrow();
        long begun = System.nanoTime();
        while (System.nanoTime() - begun < Duration.ofSeconds(4).toNanos()) {
            assertThat(isLocked()).isTrue();
            Thread.sleep(20);
        }
        lock.unlock();
        assertThat(isLocked()).isFalse();
    }

    @Test
    void aJobExtendsItsOwnLock() {
        LockingTaskExecutor executor = new DefaultLockingTaskExecutor(new RedisLockProvider(node()));
        executor.executeWithLock((Runnable) () -> {
            LockExtender.extendActiveLock(Duration.ofHours(1), Duration.ZERO);
            assertThat((Long) server.run("PTTL job-lock:default:job")).isGreaterThan(MINUTE.toMillis());
        }, job(MINUTE, Duration.ZERO));
        assertThat(isLocked()).isFalse();
    }

    @Test
    void aLockOfShedLocksOwnProviderCounts() {
        ExtensibleLockProvider provider = new RedisLockProvider(node());
        server.run("SET job-lock:default:job ADDED:x NX PX 60000");
        assertThatThrownBy(() -> provider.lock(job(MINUTE, Duration.ZERO))).isInstanceOf(LockMisuseException.class);
        server.run("DEL job-lock:default:job");
        SimpleLock lock = provider.lock(job(MINUTE, Duration.ZERO)).orElseThrow();
        assertThat(server.run("SET job-lock:default:job ADDED:x NX PX 60000")).isNull();
        lock.unlock();
    }

    @Test
    void withoutAServerNoJobRuns() {
        Locks locks = Locks.of(JedisServer.of("127.0.0.1", server.port), "jobs");
        open.push(locks);
        LockingTaskExecutor executor = new DefaultLockingTaskExecutor(new RedisLockProvider(locks));
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
        for (boolean isKept : new boolean[] {false, true}) {
            Locks locks = Locks.of(JedisServer.of("127.0.0.1", server.port), "jobs");
            open.push(locks);
            locks.holders("any");
            RedisLockProvider provider = new RedisLockProvider(locks);
            LockingTaskExecutor executor = new DefaultLockingTaskExecutor(isKept ? provider.freedAfterDeath(MINUTE) : provider);
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

    @Test
    void anInterruptedThreadRunsNoJob() {
        ExtensibleLockProvider provider = new RedisLockProvider(node());
        Thread.currentThread().interrupt();
        assertThatThrownBy(() -> provider.lock(job(MINUTE, Duration.ZERO)))
                .isInstanceOf(net.javacrumbs.shedlock.support.LockException.class);
        assertThat(Thread.interrupted()).isTrue();
    }

    @Test
    void theFirstScreenOfTheReadmeRuns() throws Exception {
        TestReadme readme = new TestReadme();
        readme.namesItsArtifact();
        Class<?> jobs = readme.compile("Jobs", server.port);
        try (var context = new AnnotationConfigApplicationContext()) {
            context.setClassLoader(jobs.getClassLoader());
            context.register(jobs);
            context.refresh();
            eventually("the job has run, and leaves its lock", () -> server.calls("lock.renew") > 0);
            assertThat(context.getBean(LockProvider.class)).isInstanceOf(RedisLockProvider.class);
        }
        assertThat(server.run("EXISTS job-lock:default:report")).isEqualTo(1L);
    }
}
