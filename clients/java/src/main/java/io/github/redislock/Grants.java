package io.github.redislock;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** Several locks that were acquired together, sorted by key. */
public final class Grants implements AutoCloseable {
    private final List<Grant> grants;

    Grants(List<Grant> grants) {
        this.grants = List.copyOf(grants);
    }

    /** Each of them. */
    public List<Grant> all() {
        return grants;
    }

    /** Gives all back, the last one first. The first error is thrown, with others as suppressed ones. */
    @Override
    public void close() {
        LockException error = closeAll();
        if (error != null) {
            throw error;
        }
    }

    @Nullable LockException closeAll() {
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
        return error;
    }
}
