package io.github.redislock.spi;

import java.util.List;

/**
 * One server. This is a node on a library of your own, with a connection for each call:
 *
 * <pre>{@code
 * class OwnConnection implements ServerConnection {
 *     private final Library library = new Library("redis", 6379); // yours
 *
 *     public List<Reply> send(long limit, List<String[]> commands) {
 *         List<Reply> replies = new ArrayList<>();
 *         for (String[] words : commands) {
 *             try {
 *                 replies.add(Reply.of(library.send(words, Duration.ofNanos(limit)))); // connects if it has to
 *             } catch (ErrorReply e) {
 *                 replies.add(Reply.of(Fault.reply(e.getMessage())));
 *             } catch (RuntimeException e) {
 *                 replies.add(Reply.of(Fault.none(true, e)));
 *                 library.close();
 *             }
 *         }
 *         return replies;
 *     }
 *
 *     public void close() {
 *         library.close();
 *     }
 * }
 *
 * class OwnNode implements ServerNode {
 *     public String address() {
 *         return "redis:6379";
 *     }
 *
 *     public List<Reply> call(long limit, List<String[]> commands) {
 *         ServerConnection connection = connection();
 *         try {
 *             return connection.send(limit, commands);
 *         } finally {
 *             connection.close();
 *         }
 *     }
 *
 *     public ServerConnection connection() {
 *         return new OwnConnection();
 *     }
 *
 *     public void close() {
 *     }
 * }
 *
 * Locks locks = Locks.of(new OwnNode(), "orders");
 * }</pre>
 */
public interface ServerNode extends LockServer {
    /** Its name in messages; of a node of a cluster {@code host:port}. */
    String address();

    /**
     * Sends commands in one piece, once, and returns a reply to each; all are answered within this time in nanoseconds.
     * Any number of threads may call; none waits for a thread of another caller.
     */
    List<Reply> call(long limit, List<String[]> commands);

    /** A connection for a session. It is not of a pool. */
    ServerConnection connection();

    /** All keys are here. */
    @Override
    default Place find(String key, long limit) {
        return new Place(this, Fault.NONE);
    }
}
