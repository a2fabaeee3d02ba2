/** A way of locking. */
interface Way extends AutoCloseable {
    /** How long a grant lasts at most. */
    int LEASE_MS = 30_000;

    /** Who asks for which share; a contest of shares measures waits, any other one hand-offs. */
    default Shares shares() {
        return Shares.NONE;
    }

    /** Connects for so many contenders, and makes the locks free. */
    void prepare(int contenders, String[] keys);

    /** A contender's own view of a lock; used by one thread. */
    Handle handle(String key, int contender);

    @Override
    void close();

    /** Takes and gives back. */
    interface Handle {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    static Way named(String name, int port) {
        Shares shares = Shares.named(name);
        if (shares != Shares.NONE) {
            return name.startsWith("commands-")
                    ? new JedisWay.Commands(port, shares)
                    : new RedissonSharesWay(port, shares);
        }
        return switch (name) {
            case "client" -> new ClientWay(port);
            case "commands" -> new JedisWay.Commands(port, Shares.NONE);
            case "baton" -> new JedisWay.Baton(port);
            case "rlock" -> new RedissonWay(port, false);
            case "rfair" -> new RedissonWay(port, true);
            default -> throw new IllegalArgumentException("no such way: " + name);
        };
    }
}
