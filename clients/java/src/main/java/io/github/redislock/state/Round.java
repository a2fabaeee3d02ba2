package io.github.redislock.state;

import io.github.redislock.spi.Fault;
import io.github.redislock.spi.Reply;
import java.util.List;
import java.util.function.Predicate;

/**
 * What is sent over the session's connection in one piece.
 *
 * @param due the commands
 * @param at when they are sent
 * @param limit how long their replies may take
 * @param breaks which faults break the connection
 */
public record Round(List<Due> due, long at, long limit, Predicate<Fault> breaks) {
    /** The commands, in the order of sending. */
    public List<String[]> commands() {
        return due.stream().map(Due::command).toList();
    }

    /** Applies the replies. Returns what breaks the round, or else {@link Fault#NONE}. */
    public Fault apply(List<Reply> replies) {
        Fault broken = Fault.NONE;
        for (int i = 0; i < due.size(); i++) {
            Fault fault = replies.get(i).fault();
            due.get(i).apply().accept(replies.get(i), at);
            broken = fault != Fault.NONE && breaks.test(fault) ? fault : broken;
        }
        return broken;
    }
}
