/** A way of locking. */
interface Way extends AutoCloseable {
    /** How long a grant lasts at most. */
    int LEASE_MS = 30_000;

    /** Connects for so many contenders, and makes the locks free. */
    void prepare(int contenders, String[] keys);

    /** A contender's own view of a lock; used by one thread. */
    Handle handle(String key);

    @Override
    void close();

    /** Takes a lock, alone or to share it. */
    interface Handle {
        Release take(boolean alone) throws Exception;
    }

    /** Gives it back. */
    interface Release {
        void run() throws Exception;
    }

    static Way named(String name, int port) {
        Shares shares = Shares.named(name);
        return switch (name) {
            case "client" -> new ClientWay(port);
            case "baton" -> new JedisWay.Baton(port);
            default -> name.startsWith("commands")
                    ? new JedisWay.Commands(port, shares)
                    : new RedissonWay(port, name, shares);
        };
    }
}
