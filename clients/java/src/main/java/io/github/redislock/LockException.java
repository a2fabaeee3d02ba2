package io.github.redislock;

import io.github.redislock.spi.Kind;
import org.jspecify.annotations.Nullable;

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
    Kind kind = Kind.MISUSE; // an error of the caller, unless Errors says otherwise

    LockException(@Nullable String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
