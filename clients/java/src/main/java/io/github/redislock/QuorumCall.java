package io.github.redislock;

import io.github.redislock.Line.Answer;
import io.github.redislock.Line.SilentException;
import io.github.redislock.Meaning.Kind;
import io.github.redislock.spi.ReplyError;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** A command to one server of several, in a bounded time. It is sent once more where its connection fails. */
final class QuorumCall {
    /**
     * What came of it.
     *
     * @param failure why there is no reply: an error that the server replied, or any other; null where there is one
     * @param isRepeated whether it was sent before, and that was not answered
     */
    record Said(@Nullable Object reply, @Nullable Throwable failure, boolean isRepeated) {
        /** What its failure means; null where there is none. */
        @Nullable Meaning meaning(Kind kind) {
            return failure == null ? null : Meaning.of(failure, kind);
        }

        /** Whether the server did not answer, or with an error that says nothing of the lock. */
        boolean isPassing() {
            return meaning(Kind.ACQUIRE) == Meaning.PASSING;
        }

        boolean isCalledOff() {
            return failure instanceof CancellationException;
        }

        boolean begins(String word) {
            return failure instanceof ReplyError error && error.getMessage().startsWith(word);
        }
    }

    private final QuorumMember member;
    private final byte[][] words;
    private final CompletableFuture<Said> result = new CompletableFuture<>();
    private final long nanos;
    private final TimeLimit limit;
    private @Nullable Line on;
    private boolean isRepeated;
    private boolean isSending;
    private boolean isOver;
    private boolean isCalledOff;

    /** It may take so many nanoseconds, connecting included. */
    QuorumCall(Scope scope, QuorumMember member, Words words, long nanos) {
        this.member = member;
        this.words = words.bytes();
        this.nanos = nanos;
        limit = new TimeLimit(scope, () -> end(null,
                new SilentException("no answer in " + TimeUnit.NANOSECONDS.toMillis(nanos) + " ms")));
    }

    /** What came of it; it never fails. A server that is down is not asked. */
    CompletableFuture<Said> start() {
        Throwable down = member.down();
        if (down != null) {
            result.complete(new Said(null, down, false));
        } else {
            limit.set(System.nanoTime() + nanos);
            send();
        }
        return result;
    }

    /** On this line only, behind what was sent on it before. */
    CompletableFuture<Said> startOn(Line line) {
        limit.set(System.nanoTime() + nanos);
        send(line, false);
        return result;
    }

    /** The line on which it was sent last; null where it was not. */
    synchronized @Nullable Line on() {
        return on;
    }

    /** Calls it off, and tells when it is not being sent any more. */
    CompletableFuture<?> stop() {
        callOff();
        return result;
    }

    /** Its answer is not waited for any more, and it is not sent any more. What was sent may still be carried out. */
    void callOff() {
        synchronized (this) {
            if (isOver) {
                return;
            }
            isOver = true;
            isCalledOff = true;
            if (isSending) {
                return; // told when it is sent: what is sent next comes behind it
            }
        }
        tellCalledOff();
    }

    private void tellCalledOff() {
        limit.cancel();
        result.complete(new Said(null, new CancellationException("called off"), isRepeated));
    }

    private void send() {
        member.line().whenComplete((line, thrown) -> {
            if (thrown != null) {
                end(null, Line.unwrapped(thrown));
            } else {
                send(line, on() == null);
            }
        });
    }

    private void send(Line line, boolean mayRepeat) {
        synchronized (this) {
            if (isOver) {
                return;
            }
            isRepeated = on != null;
            on = line;
            isSending = true;
        }
        CompletableFuture<Answer> answer = line.call(words);
        boolean isToBeTold;
        synchronized (this) {
            isSending = false;
            isToBeTold = isCalledOff;
        }
        if (isToBeTold) {
            tellCalledOff();
        }
        answer.whenComplete((said, broken) -> {
            if (broken == null) {
                end(said.reply(), said.error());
            } else if (mayRepeat) {
                send();
            } else {
                end(null, Line.unwrapped(broken));
            }
        });
    }

    private void end(@Nullable Object reply, @Nullable Throwable failure) {
        Line last;
        synchronized (this) {
            if (isOver) {
                return;
            }
            isOver = true;
            last = on;
        }
        limit.cancel();
        Said said = new Said(reply, failure, isRepeated);
        if (said.isPassing()) {
            member.learn(failure, last);
        }
        result.complete(said);
    }
}
