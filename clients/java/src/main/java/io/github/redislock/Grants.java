package io.github.redislock;

import java.util.List;

/**
 * Several locks that were acquired together, sorted by key.
 *
 * @see SeveralLocks
 */
public final class Grants implements AutoCloseable {
    private final List<Grant> grants;

    Grants(List<Grant> grants) {
        this.grants = List.copyOf(grants);
    }

    /** Each of them, sorted by key. */
    public List<Grant> all() {
        return grants;
    }

    /**
     * Gives all back, the last one first. The first error is thrown, with others as suppressed ones.
     *
     * @throws LockLostException if one was lost before
     * @throws LockUnavailableException if the server has not answered for two reply timeouts: the session repeats it
     */
    @Override
    public void close() {
        LockException error = null;
        for (int i = grants.size() - 1; i >= 0; i--) {
            try {
                grants.get(i).close();
            } catch (LockException e) {
                if (error == null) {
                    error = e;
                } else {
                    error.addSuppressed(e);
                }
            }
        }
        if (error != null) {
            throw error;
        }
    }
}
