package io.github.redislock.spring.integration;

import static io.github.redislock.TestServer.eventually;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.redislock.LockLostException;
import io.github.redislock.Locks;
import io.github.redislock.TestBed;
import io.github.redislock.TestServer;
import io.github.redislock.jedis.JedisServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.dao.CannotAcquireLockException;

/** What Spring Integration, 6 and 7, expects of a registry; two processes are two {@link Locks} here. */
class RegistryTest extends TestBed {
    private final TestServer server = start();
    private final RedisLockRegistry registry = new RedisLockRegistry(process(), "registry");
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Lock lock = registry.obtain("foo");

    @AfterEach
    void endThreads() {
        threads.shutdownNow();
    }

    private Locks process() {
        return closing(Locks.of(JedisServer.of("127.0.0.1", server.port), "flows"));
    }

    private Lock ofAnotherProcess(String key) {
        return new RedisLockRegistry(process(), "registry").obtain(key);
    }

    private boolean isLocked(String key) {
        return server.run("EXISTS registry:" + key).equals(1L);
    }

    @Test
    void eachCallLocksAndUnlocks() throws Throwable {
        for (Callable<Boolean> call : List.<Callable<Boolean>>of(lock::tryLock, () -> lock.tryLock(1, TimeUnit.SECONDS), () -> {
            lock.lock();
            return true;
        }, () -> {
            lock.lockInterruptibly();
            return true;
        })) {
            assertThat(call.call()).isTrue();
            assertThat(isLocked("foo")).isTrue();
            assertThat(registry.obtain("foo").tryLock()).as("the thread locks again").isTrue();
            lock.unlock();
            assertThat(isLocked("foo")).isTrue();
            lock.unlock();
            assertThat(isLocked("foo")).isFalse();
        }
        assertThatThrownBy(lock::newCondition).isInstanceOf(UnsupportedOperationException.class);
        assertThatThrownBy(() -> registry.obtain(7)).isInstanceOf(IllegalArgumentException.class);
        registry.executeLocked("foo", () -> assertThat(isLocked("foo")).isTrue());
        ofAnotherProcess("foo").lock();
        assertThatThrownBy(() -> registry.executeLocked("foo", Duration.ofMillis(100), () -> { }))
                .isInstanceOf(TimeoutException.class);
    }

    @Test
    void anotherThreadWaitsAndCannotUnlock() throws Exception {
        lock.lock();
        assertThat(threads.submit(() -> lock.tryLock()).get()).isFalse();
        assertThat(threads.submit(() -> lock.tryLock(200, TimeUnit.MILLISECONDS)).get()).isFalse();
        assertThatThrownBy(threads.submit(() -> {
            lock.unlock();
            return true;
        })::get).cause().isInstanceOf(IllegalStateException.class).hasMessageContaining("You do not own lock at");
        Future<Boolean> waiting = threads.submit(() -> {
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
    void unlockReportsALockWhoseTimeIsOver() throws Exception {
        Lock timed = new RedisLockRegistry(process(), "registry", 200).obtain("foo");
        timed.lock();
        assertThat(lock.tryLock(10, TimeUnit.SECONDS)).isTrue();
        assertThatThrownBy(timed::lock).isInstanceOf(CannotAcquireLockException.class)
                .hasCauseInstanceOf(LockLostException.class);
        assertThatThrownBy(timed::unlock).isInstanceOf(ConcurrentModificationException.class)
                .hasMessageContaining("Lock was released in the store due to expiration.")
                .hasCauseInstanceOf(LockLostException.class);
        assertThat(isLocked("foo")).isTrue();
        assertThatThrownBy(timed::unlock).isInstanceOf(IllegalStateException.class);
        lock.unlock();
        assertThat(timed.tryLock()).isTrue();
        timed.unlock();
    }

    @Test
    void aRenewalGivesALockItsTimeAgain() throws Exception {
        RedisLockRegistry timed = new RedisLockRegistry(process(), "registry", 1500);
        timed.obtain("foo").lock();
        for (int n = 0; n < 4; n++) {
            Thread.sleep(500);
            timed.renewLock("foo");
        }
        timed.renewLock("foo", Duration.ofSeconds(20));
        assertThat((Long) server.run("PTTL registry:foo")).isGreaterThan(15_000);
        timed.obtain("foo").unlock();
        assertThatThrownBy(() -> timed.renewLock("foo")).isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("Could not renew mutex at foo");
        lock.lock();
        registry.renewLock("foo");
        server.run("DEL registry:foo");
        assertThatThrownBy(() -> registry.renewLock("foo")).isInstanceOf(IllegalStateException.class)
                .hasCauseInstanceOf(LockLostException.class);
    }

    @Test
    void locksOutOfUseAreForgotten() {
        Lock never = registry.obtain("never");
        Lock idle = registry.obtain("idle");
        lock.lock();
        idle.lock();
        idle.unlock();
        registry.expireUnusedOlderThan(60_000);
        assertThat(registry.obtain("idle")).isSameAs(idle);
        registry.expireUnusedOlderThan(-1000);
        assertThat(registry.obtain("foo")).isSameAs(lock);
        assertThat(registry.obtain("idle")).isNotSameAs(idle);
        assertThat(registry.obtain("never")).isSameAs(never);
        idle.lock(); // a lock that was forgotten is a lock
        assertThat(isLocked("idle")).isTrue();
    }

    @Test
    void anInterruptEndsAWait() throws Exception {
        ofAnotherProcess("foo").lock();
        List<Thread> waiter = new ArrayList<>();
        Future<Boolean> waiting = threads.submit(() -> {
            waiter.add(Thread.currentThread());
            lock.lockInterruptibly();
            return true;
        });
        eventually("it waits", () -> server.waiters("registry:foo").size() == 1);
        waiter.get(0).interrupt();
        assertThatThrownBy(waiting::get).hasCauseInstanceOf(InterruptedException.class);
        assertThat(server.waiters("registry:foo")).isEmpty();
    }

    @Test
    void errorsOfTheServerAreThoseOfSpring() {
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
    }
}
