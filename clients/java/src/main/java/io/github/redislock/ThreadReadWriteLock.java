package io.github.redislock;

import java.util.concurrent.locks.ReadWriteLock;

/**
 * Many threads that read or one that writes, of several processes. Who waits is served in order, so that no stream of
 * readers starves a writer. A writer may become a reader (lock to read, then unlock the write lock). The only reader
 * may become the writer; where there are others, that is a {@link LockNotAloneException} at once.
 */
public final class ThreadReadWriteLock implements ReadWriteLock {
    private final ThreadLock read;
    private final ThreadLock write;

    ThreadReadWriteLock(ThreadLock read, ThreadLock write) {
        this.read = read;
        this.write = write;
    }

    @Override
    public ThreadLock readLock() {
        return read;
    }

    @Override
    public ThreadLock writeLock() {
        return write;
    }
}
