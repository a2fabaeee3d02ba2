package io.github.redislock.spring.integration;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.redislock.LockDeadlockException;
import io.github.redislock.LockLostException;
import io.github.redislock.Locks;
import io.github.redislock.TestReadme;
import io.github.redislock.TestServer;
import io.github.redislock.TestServers;
import io.github.redislock.jedis.JedisServer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.CannotAcquireLockException;

/** What Spring Integration expects of its registry on Redis; two processes are two {@link Locks} here. */
class RegistryTest {
    private static final Duration LONG = Duration.ofSeconds(20);

    private final Deque<AutoCloseable> open = new ArrayDeque<>();
    private TestServer server;
    private Locks locks;

    @BeforeEach
    void start() {
        server = TestServers.start();
        locks = process();
    }

    @AfterEach
    void end() throws Exception {
        while (!open.isEmpty()) {
            open.pop().close();
        }
        server.order("end");
    }

    private Locks process() {
        Locks made = Locks.builder(JedisServer.of("127.0.0.1", server.port)).replyTimeout(Duration.ofSeconds(10)).build();
        open.push(made);
        return made;
    }

    private static <T> FutureTask<T> inThread(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    private boolean isLocked(String key) {
        return server.run("EXISTS registry:" + key).equals(1L);
    }

    private int known(RedisLockRegistry registry, String... keys) {
        int same = 0;
        for (String key : keys) {
            same += registry.obtain(key) == registry.obtain(key) ? 1 : 0;
        }
        return same;
    }

    @Test
    void locksAndUnlocksByEachOfTheCalls() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry");
        Lock lock = registry.obtain("foo");
        for (int n = 0; n < 5; n++) {
            for (Callable<Boolean> call : List.<Callable<Boolean>>of(lock::tryLock, () -> lock.tryLock(1, TimeUnit.SECONDS),
                    () -> {
                        lock.lock();
                        return true;
                    }, () -> {
                        lock.lockInterruptibly();
                        return true;
                    })) {
                assertThat(call.call()).isTrue();
                assertThat(isLocked("foo")).isTrue();
                lock.unlock();
                assertThat(isLocked("foo")).isFalse();
            }
        }
        assertThatThrownBy(lock::newCondition).isInstanceOf(UnsupportedOperationException.class);
        assertThatThrownBy(() -> registry.obtain(7)).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> registry.obtain(null)).isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> new RedisLockRegistry(locks, null)).isInstanceOf(IllegalArgumentException.class);
    }

    @Test
    void aThreadLocksAgain() {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry");
        Lock first = registry.obtain("foo");
        first.lock();
        Lock second = registry.obtain("foo");
        assertThat(second).isSameAs(first);
        assertThat(registry.obtain("bar")).isNotSameAs(first);
        second.lock();
        assertThat(server.info("registry:foo", "holds")).isEqualTo(2L);
        second.unlock();
        assertThat(isLocked("foo")).isTrue();
        first.unlock();
        assertThat(isLocked("foo")).isFalse();
    }

    @Test
    void anotherThreadWaitsAndCannotUnlock() throws Exception {
        Lock lock = new RedisLockRegistry(locks, "registry").obtain("foo");
        lock.lock();
        assertThat(inThread(() -> lock.tryLock()).get()).isFalse();
        assertThat(inThread(() -> lock.tryLock(200, TimeUnit.MILLISECONDS)).get()).isFalse();
        assertThatThrownBy(inThread(() -> {
            lock.unlock();
            return true;
        })::get).cause().isInstanceOf(IllegalStateException.class).hasMessageContaining("You do not own lock at");
        FutureTask<Boolean> waiting = inThread(() -> {
            lock.lockInterruptibly();
            lock.unlock();
            return true;
        });
        eventually("it waits", () -> server.waiters("registry:foo").size() == 1);
        lock.unlock();
        assertThat(waiting.get()).isTrue();
        assertThatThrownBy(lock::unlock).isInstanceOf(IllegalStateException.class);
    }

    @Test
    void processesKeepEachOtherOutInTheOrderOfTheirCalls() throws Exception {
        List<Integer> order = new ArrayList<>();
        Lock mine = new RedisLockRegistry(locks, "registry").obtain("foo");
        mine.lock();
        List<FutureTask<Boolean>> others = new ArrayList<>();
        for (int n = 0; n < 5; n++) {
            int number = n;
            Lock lock = new RedisLockRegistry(process(), "registry").obtain("foo");
            others.add(inThread(() -> {
                lock.lock();
                order.add(number);
                lock.unlock();
                return true;
            }));
            eventually("it waits", () -> server.waiters("registry:foo").size() == number + 1);
        }
        mine.unlock();
        for (FutureTask<Boolean> other : others) {
            other.get();
        }
        assertThat(order).containsExactly(0, 1, 2, 3, 4);
    }

    @Test
    void registryKeysAreApartAndTheSameOneIsTheSameLock() throws Exception {
        Lock a = new RedisLockRegistry(locks, "registry").obtain("foo");
        Lock b = new RedisLockRegistry(locks, "another").obtain("foo");
        Lock same = new RedisLockRegistry(locks, "registry").obtain("foo");
        a.lock();
        assertThat(inThread(() -> {
            boolean isFree = b.tryLock();
            b.unlock();
            return isFree;
        }).get()).isTrue();
        assertThat(inThread(() -> same.tryLock()).get()).isFalse();
        a.unlock();
    }

    @Test
    void aLockWhoseTimeIsOverIsToldByUnlock() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry", 200);
        Lock other = new RedisLockRegistry(process(), "registry").obtain("foo");
        Lock lock = registry.obtain("foo");
        lock.lock();
        assertThat(other.tryLock(10, TimeUnit.SECONDS)).isTrue();
        assertThatThrownBy(registry.obtain("foo")::lock).isInstanceOf(CannotAcquireLockException.class)
                .hasCauseInstanceOf(LockLostException.class);
        assertThatThrownBy(lock::unlock).isInstanceOf(ConcurrentModificationException.class)
                .hasMessageContaining("Lock was released in the store due to expiration.")
                .hasCauseInstanceOf(LockLostException.class);
        assertThat(isLocked("foo")).isTrue();
        assertThatThrownBy(lock::unlock).isInstanceOf(IllegalStateException.class);
        assertThat(lock.tryLock()).isFalse();
        other.unlock();
        assertThat(lock.tryLock()).isTrue();
        lock.unlock();
    }

    @Test
    void aLockThatWasTakenAwayIsToldByUnlock() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry");
        Lock lock = registry.obtain("foo");
        lock.lock();
        server.run("DEL registry:foo");
        assertThatThrownBy(() -> registry.renewLock("foo")).isInstanceOf(IllegalStateException.class);
        assertThatThrownBy(lock::unlock).isInstanceOf(ConcurrentModificationException.class);
        lock.lock();
        lock.unlock();
    }

    @Test
    void withoutATimeALockIsHeldOn() throws Exception {
        Locks short_ = Locks.builder(JedisServer.of("127.0.0.1", server.port)).lease(Duration.ofSeconds(1)).build();
        open.push(short_);
        Lock lock = new RedisLockRegistry(short_, "registry").obtain("foo");
        lock.lock();
        Thread.sleep(3000);
        assertThat(isLocked("foo")).isTrue();
        lock.unlock();
    }

    @Test
    void aRenewalGivesItsTimeAgain() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry", 1500);
        Lock lock = registry.obtain("foo");
        lock.lock();
        for (int n = 0; n < 6; n++) {
            Thread.sleep(500);
            registry.renewLock("foo");
            assertThat((Long) server.run("PTTL registry:foo")).isGreaterThan(1000);
        }
        registry.renewLock("foo", LONG);
        assertThat((Long) server.run("PTTL registry:foo")).isGreaterThan(15_000);
        lock.unlock();
        RedisLockRegistry held = new RedisLockRegistry(locks, "registry");
        held.obtain("bar").lock();
        held.renewLock("bar");
        held.obtain("bar").unlock();
    }

    @Test
    void aLockThatIsNotHeldHereIsNotRenewed() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry", 10_000);
        assertThatThrownBy(() -> registry.renewLock("foo")).isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("Could not renew mutex at foo");
        registry.obtain("foo").lock();
        assertThatThrownBy(inThread(() -> {
            registry.renewLock("foo");
            return true;
        })::get).hasCauseInstanceOf(IllegalStateException.class);
        server.run("DEL registry:foo");
        assertThatThrownBy(() -> registry.renewLock("foo")).isInstanceOf(IllegalStateException.class)
                .hasCauseInstanceOf(LockLostException.class);
    }

    @Test
    void locksOutOfUseAreForgotten() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry");
        Lock used = registry.obtain("used");
        Lock idle = registry.obtain("idle");
        Lock never = registry.obtain("never");
        used.lock();
        idle.lock();
        idle.unlock();
        registry.expireUnusedOlderThan(60_000);
        assertThat(registry.obtain("idle")).isSameAs(idle);
        registry.expireUnusedOlderThan(-1000);
        assertThat(registry.obtain("used")).isSameAs(used);
        assertThat(registry.obtain("idle")).isNotSameAs(idle);
        assertThat(registry.obtain("never")).isSameAs(never);
        used.unlock();
    }

    @Test
    void noMoreAreRememberedThanTheCapacity() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry");
        registry.setCacheCapacity(2);
        Lock first = registry.obtain("1");
        Lock second = registry.obtain("2");
        assertThat(registry.obtain("1")).isSameAs(first);
        registry.obtain("3");
        assertThat(registry.obtain("1")).as("used later than 2").isSameAs(first);
        assertThat(registry.obtain("2")).isNotSameAs(second);
        registry.obtain("1").lock();
        registry.obtain("2").lock();
        assertThatThrownBy(() -> registry.obtain("3")).isInstanceOf(CannotAcquireLockException.class);
        registry.obtain("1").unlock();
        registry.obtain("3");
        registry.obtain("2").unlock();
        second.lock(); // a lock that was forgotten is a lock
        assertThat(isLocked("2")).isTrue();
        second.unlock();
        assertThat(known(registry, "2", "3")).isEqualTo(2);
    }

    @Test
    void workIsDoneUnderTheLock() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry");
        assertThat(registry.<Boolean, RuntimeException>executeLocked("foo", () -> isLocked("foo"))).isTrue();
        assertThat(isLocked("foo")).isFalse();
        Lock other = new RedisLockRegistry(process(), "registry").obtain("foo");
        other.lock();
        assertThatThrownBy(() -> registry.executeLocked("foo", Duration.ofMillis(100), () -> { }))
                .isInstanceOf(TimeoutException.class);
        other.unlock();
    }

    @Test
    void anInterruptEndsAWaitAndNotAnUnlock() throws Exception {
        Lock other = new RedisLockRegistry(process(), "registry").obtain("foo");
        other.lock();
        Lock lock = new RedisLockRegistry(locks, "registry").obtain("foo");
        CompletableFuture<Throwable> ended = new CompletableFuture<>();
        Thread waiting = new Thread(() -> {
            try {
                lock.lockInterruptibly();
            } catch (Throwable e) {
                ended.complete(e);
            }
        });
        waiting.start();
        eventually("it waits", () -> server.waiters("registry:foo").size() == 1);
        waiting.interrupt();
        assertThat(ended.get()).isInstanceOf(InterruptedException.class);
        assertThat(server.waiters("registry:foo")).isEmpty();
        other.unlock();
        assertThat(inThread(() -> {
            lock.lock();
            Thread.currentThread().interrupt();
            lock.unlock();
            return Thread.interrupted();
        }).get()).isTrue();
        assertThat(isLocked("foo")).isFalse();
    }

    @Test
    void errorsOfTheServerAreThoseOfSpring() throws Exception {
        Lock lock = new RedisLockRegistry(locks, "registry").obtain("foo");
        server.run("SET registry:foo client NX PX 60000"); // as Spring Integration's own registry does
        assertThatThrownBy(lock::lock).isInstanceOf(CannotAcquireLockException.class)
                .hasMessageContaining("Failed to lock mutex at registry:foo");
        server.run("DEL registry:foo");
        lock.lock();
        assertThat(server.run("SET registry:foo client NX PX 60000")).isNull();
        lock.unlock();
        server.order("kill");
        assertThatThrownBy(lock::tryLock).isInstanceOf(CannotAcquireLockException.class);
        server.order("restart");
        lock.lock();
        lock.unlock();
    }

    @Test
    void aCircleOfWaitsIsTold() throws Exception {
        RedisLockRegistry registry = new RedisLockRegistry(locks, "registry");
        Lock a = registry.obtain("a");
        Lock b = registry.obtain("b");
        a.lock();
        FutureTask<Boolean> other = inThread(() -> {
            b.lock();
            a.lock();
            a.unlock();
            b.unlock();
            return true;
        });
        eventually("it waits", () -> server.waiters("registry:a").size() == 1);
        assertThatThrownBy(b::lock).isInstanceOf(CannotAcquireLockException.class)
                .hasCauseInstanceOf(LockDeadlockException.class);
        a.unlock();
        assertThat(other.get()).isTrue();
    }

    @Test
    void manyThreadsOfManyProcessesAreNeverTwoInside() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger count = new AtomicInteger();
        List<FutureTask<Boolean>> all = new ArrayList<>();
        for (int process = 0; process < 4; process++) {
            RedisLockRegistry registry = new RedisLockRegistry(process(), "registry", 30_000);
            for (int thread = 0; thread < 4; thread++) {
                all.add(inThread(() -> {
                    for (int n = 0; n < 25; n++) {
                        Lock lock = registry.obtain("foo");
                        lock.lock();
                        assertThat(inside.incrementAndGet()).isEqualTo(1);
                        count.incrementAndGet();
                        inside.decrementAndGet();
                        lock.unlock();
                        registry.expireUnusedOlderThan(0);
                    }
                    return true;
                }));
            }
        }
        for (FutureTask<Boolean> one : all) {
            try {
                one.get();
            } catch (ExecutionException e) {
                throw new AssertionError(e.getCause());
            }
        }
        assertThat(count).hasValue(400);
    }

    @Test
    void theFirstScreenOfTheReadmeRuns() throws Exception {
        TestReadme readme = new TestReadme();
        readme.namesItsArtifact();
        Class<?> flows = readme.compile("Flows", server.port);
        try (var context = new org.springframework.context.annotation.AnnotationConfigApplicationContext()) {
            context.setClassLoader(flows.getClassLoader());
            context.register(flows);
            context.refresh();
            eventually("two groups are released", () -> server.calls("lock.release") >= 4);
        }
        assertThat(server.run("DBSIZE")).isEqualTo(0L);
    }
}
