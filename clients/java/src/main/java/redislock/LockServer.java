package redislock;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Future;

/**
 * How the commands of {@link RedisLocks} reach the server. {@code command[0]} is the command's name,
 * {@code command[1]} the key: it goes to the primary that serves the key.
 *
 * <p>Nothing is repeated here, not even after a lost answer: RedisLocks does that, and has to know
 * that it did. What fails is a {@link Refusal} when the server has answered so, and any other
 * RuntimeException when nobody knows what it has done.
 */
public interface LockServer {
    /** Sends a command once. The answer is a list of Long and String (a number alone, too), or null. */
    List<?> call(String... command);

    /** The same on a connection of its own, which waits for the answer so long; zero is for ever. */
    Wait wait(Duration readTimeout, String... command);

    /** A call that waits. Closing it closes its connection. */
    interface Wait extends AutoCloseable {
        Future<List<?>> answer();

        @Override
        void close();
    }

    /** An error that the server has answered with. */
    final class Refusal extends RuntimeException {
        public Refusal(String message) {
            super(message);
        }

        /** The first word, by which programs tell errors apart. */
        public String word() {
            return getMessage().split(" ", 2)[0];
        }
    }
}
