package io.github.redislock;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Kind;
import java.util.Objects;

/**
 * An error of this client; its class says which. The message names the call, the lock and the words of the server; the cause
 * is the exception of Jedis or Lettuce, if there was one.
 *
 * <pre>{@code
 * try (Grant grant = locks.get("lock:orders:42").waiting(Duration.ofSeconds(2)).lock()) {
 *     pay(grant.token());
 * } catch (LockBusyException e) {
 *     answer(409); // others hold it
 * } catch (LockUnavailableException e) {
 *     answer(503); // the server gives no answer
 * } catch (LockLostException e) {
 *     answer(500); // thrown by close(): somebody else may have had the lock while pay worked
 * }
 * }</pre>
 */
public sealed class LockException extends RuntimeException
        permits LockBusyException, LockDeadlockException, LockLostException, LockMisuseException,
        LockNotAloneException, LockRefusedException, LockUnavailableException {
    Kind kind = Kind.MISUSE; // an error of the caller, unless a fault says otherwise

    LockException(String message) {
        super(message);
    }

    static LockMisuseException misuse(String text) {
        return new LockMisuseException(text);
    }

    /** The exception of a failure. */
    static LockException of(String attempted, String key, Fault fault) {
        String text = attempted + " " + key + ": " + fault.text();
        LockException error = switch (Objects.requireNonNull(fault.kind())) {
            case BUSY -> new LockBusyException(text);
            case LOST -> new LockLostException(text);
            case DEADLOCK -> new LockDeadlockException(text);
            case NOT_ALONE -> new LockNotAloneException(text);
            case REFUSED -> new LockRefusedException(text);
            case UNAVAILABLE -> new LockUnavailableException(text);
            case MISUSE -> misuse(text);
        };
        error.kind = fault.kind();
        if (fault.cause() != null) {
            error.initCause(fault.cause());
        }
        return error;
    }

    static Kind kindOf(Throwable error) {
        return error instanceof LockException known ? known.kind : Kind.UNAVAILABLE;
    }
}
