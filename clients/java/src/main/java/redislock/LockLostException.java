package redislock;

/** The lock ended before it was unlocked: work that relied on it has to stop. */
public final class LockLostException extends IllegalMonitorStateException {
    public LockLostException(String message) {
        super(message);
    }
}
