package io.github.redislock;

import io.github.redislock.spi.ReplyError;
import io.github.redislock.spi.ServerConnection;
import java.io.IOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/** A connection that is closed when it owes a reply for too long, and that knows what its PONGs have proved. */
final class Line {
    /** A timer that is later than this tells that the process stood still. */
    private static final long STOOD_STILL = TimeUnit.SECONDS.toNanos(1);

    /** The server, or the network before it, said nothing for a reply's time. */
    static final class SilentException extends IOException {
        private static final long serialVersionUID = 1;

        SilentException(String message) {
            super(message);
        }
    }

    /** A reply, or an error that the server replied, and when the command was sent on which line. */
    record Answer(@Nullable Object reply, @Nullable ReplyError error, long sent, Line line) {}

    /** A limit of 0 is none. */
    private record Sent(long at, long limit, CompletableFuture<Answer> answer) {
        boolean isBounded() {
            return limit != 0;
        }
    }

    private final Scope scope;
    private final ServerConnection connection;
    private final long opened = System.nanoTime();
    private final ConcurrentLinkedQueue<Sent> unanswered = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean watching = new AtomicBoolean();
    private final CompletableFuture<Throwable> end = new CompletableFuture<>();
    private volatile long proven = opened;
    private volatile boolean ponged;
    private volatile long watchDue; // of the look at what is unanswered, where one is to come
    private volatile int replies;
    private volatile int greetings;

    Line(Scope scope, ServerConnection connection) {
        this.scope = scope;
        this.connection = connection;
        connection.ended().whenComplete((nothing, failure) -> close(new IOException("the connection was closed")));
    }

    /** Sends a command that is answered within a reply's time, or ends the line. */
    CompletableFuture<Answer> call(byte[]... words) {
        return call(Caller.NONE, scope.settings().reply(), words);
    }

    /** The same within so many nanoseconds, for a caller that may read the reply. */
    CompletableFuture<Answer> call(Caller caller, long limit, byte[]... words) {
        CompletableFuture<Answer> answer = send(limit, caller, words);
        if (watching.compareAndSet(false, true) || watchDue - System.nanoTime() > limit) {
            watch(limit);
        }
        return answer;
    }

    /** Sends a command that may take any time. */
    CompletableFuture<Answer> await(Caller caller, byte[]... words) {
        return send(0, caller, words);
    }

    private CompletableFuture<Answer> send(long limit, Caller caller, byte[]... words) {
        Sent sent = new Sent(System.nanoTime(), limit, new CompletableFuture<>());
        unanswered.add(sent);
        CompletableFuture<@Nullable Object> answered;
        if (caller.isFree()) {
            answered = connection.sendUnread(words);
            caller.waitsFor(sent.answer, this);
        } else {
            answered = connection.send(words);
        }
        answered.whenComplete((reply, thrown) -> {
            unanswered.remove(sent);
            Throwable failure = thrown == null ? null : unwrapped(thrown);
            if (failure == null || failure instanceof ReplyError) {
                replies++; // by one thread at a time
                sent.answer.complete(new Answer(reply, (ReplyError) failure, sent.at, this));
            } else {
                close(failure);
                sent.answer.completeExceptionally(failure);
            }
        });
        if (end.isDone()) {
            failAll();
        }
        return sent.answer;
    }

    /** Reads here until this is done, unless another thread does. */
    void read(CompletableFuture<?> reply) {
        connection.read(reply);
    }

    /** Whether its end has to be noticed also while it owes no reply. */
    void watch(boolean isWatched) {
        connection.watch(isWatched);
    }

    /** PING: what is kept here stood when it was sent. */
    CompletableFuture<Answer> ping() {
        return call(Words.PING).thenApply(answer -> {
            if (answer.error == null) {
                ponged = true;
                proven = answer.sent; // PONGs come in the order of the PINGs
            }
            return answer;
        });
    }

    /** Up to when what is kept here is proved to have stood, or that time where that is later. */
    long provenSince(long own) {
        return ponged && proven - own > 0 ? proven : own;
    }

    private void watch(long delay) {
        long due = System.nanoTime() + delay;
        watchDue = due;
        scope.after(delay, () -> {
            long now = System.nanoTime();
            if (due != watchDue) {
                return; // there is another one, sooner
            }
            Sent oldest = oldestBounded();
            if (oldest == null) {
                watching.set(false);
                Sent next = oldestBounded();
                if (next != null && watching.compareAndSet(false, true)) {
                    watch(next.limit);
                }
            } else if (stoodStill(due)) {
                watch(oldest.limit); // what has come is read first
            } else if (now - oldest.at >= oldest.limit) {
                close(new SilentException("no answer in " + TimeUnit.NANOSECONDS.toMillis(oldest.limit) + " ms"));
            } else {
                watch(oldest.at + oldest.limit - now);
            }
        });
    }

    private @Nullable Sent oldestBounded() {
        for (Sent sent : unanswered) {
            if (sent.isBounded()) {
                return sent;
            }
        }
        return null;
    }

    /** Whether a timer that was due then comes so late that what has come must be read before it is judged. */
    static boolean stoodStill(long due) {
        return System.nanoTime() - due > STOOD_STILL;
    }

    boolean isOpen() {
        return !end.isDone();
    }

    /** Sends what a new connection begins with, whose answer says nothing of how it serves. */
    CompletableFuture<Answer> greet(Words words) {
        greetings++; // by the thread that opens it
        return call(words.bytes());
    }

    /** Whether more was answered than what it begins with. */
    boolean hasServed() {
        return replies > greetings;
    }

    long age() {
        return System.nanoTime() - opened;
    }

    /** Is completed with the reason when the line has ended. */
    CompletableFuture<Throwable> end() {
        return end;
    }

    void close(Throwable why) {
        if (end.complete(why)) {
            scope.execute(connection::close); // which may block
            failAll();
        }
    }

    private void failAll() {
        Throwable why = end.getNow(new IOException("the connection was closed"));
        for (Sent sent = unanswered.poll(); sent != null; sent = unanswered.poll()) {
            sent.answer.completeExceptionally(why);
        }
    }

    /** A failure that goes on from one future to the next. */
    static CompletionException completion(Throwable thrown) {
        return thrown instanceof CompletionException wrapped ? wrapped : new CompletionException(thrown);
    }

    static Throwable unwrapped(Throwable thrown) {
        return thrown instanceof CompletionException && thrown.getCause() != null ? thrown.getCause() : thrown;
    }
}
