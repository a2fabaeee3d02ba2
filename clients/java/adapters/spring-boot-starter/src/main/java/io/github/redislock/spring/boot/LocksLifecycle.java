package io.github.redislock.spring.boot;

import io.github.redislock.LockException;
import io.github.redislock.Locks;
import java.time.Duration;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.jspecify.annotations.Nullable;
import org.springframework.context.ApplicationContext;
import org.springframework.context.ApplicationContextAware;
import org.springframework.context.ApplicationListener;
import org.springframework.context.SmartLifecycle;
import org.springframework.context.event.ContextClosedEvent;

/**
 * When the locks begin and end: after the connection factory has started and before the web server does; at the end
 * after the web server, the executors and the endpoints have stopped, and before the connection factory does.
 *
 * <p>What is held then, by work that has not come to its end, has so long to come to it. Only then is it released.
 */
final class LocksLifecycle implements SmartLifecycle, ApplicationListener<ContextClosedEvent>, ApplicationContextAware {
    /** Connection factories have 0; web servers, executors and endpoints more than a billion. */
    static final int PHASE = 1000;

    private static final Log LOG = LogFactory.getLog(LocksLifecycle.class);

    private final Locks locks;
    private final String probeKey;
    private final Duration drain;
    private @Nullable ApplicationContext context;
    private volatile boolean isRunning;
    private volatile boolean isClosing;

    LocksLifecycle(Locks locks, String probeKey, Duration drain) {
        this.locks = locks;
        this.probeKey = probeKey;
        this.drain = drain;
    }

    /** Connects once, so that the first lock does not wait for it. An application starts without Redis too. */
    @Override
    public void start() {
        try {
            locks.lock(probeKey).asLock().isLocked();
        } catch (LockException e) {
            LOG.warn("No lock can be taken now: " + e.getMessage());
        }
        isRunning = true;
    }

    @Override
    public void setApplicationContext(ApplicationContext own) {
        context = own;
    }

    /** Of a child the end is told here too. */
    @Override
    public void onApplicationEvent(ContextClosedEvent event) {
        isClosing |= event.getApplicationContext() == context;
    }

    @Override
    public void stop(Runnable callback) {
        Thread thread = new Thread(() -> {
            try {
                stop();
            } finally {
                callback.run();
            }
        }, "redis-lock-stop");
        thread.start();
    }

    /** A context that is only stopped may be started again: its locks go on. */
    @Override
    public void stop() {
        try {
            if (!locks.awaitReleased(drain)) {
                LOG.warn("After " + drain.toMillis() + " ms " + locks.held() + " locks are held still");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        if (isClosing) {
            locks.close();
        }
        isRunning = false;
    }

    @Override
    public boolean isRunning() {
        return isRunning;
    }

    @Override
    public int getPhase() {
        return PHASE;
    }
}
