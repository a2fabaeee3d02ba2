/** Who asks for which share of a lock in a contest. */
enum Shares {
    /** Everybody wants the lock alone. */
    NONE,
    /** Of ten contenders nine only read, and one only writes. */
    THREADS,
    /** Of ten calls of each contender nine read, and one writes. */
    CALLS,
    /** All want one of {@link #PERMITS} permits. */
    PERMITS_OF_EIGHT;

    static final int PERMITS = 8;

    /** Whether this call of a contender is to have the lock alone. */
    boolean writes(int contender, long call) {
        return switch (this) {
            case NONE -> true;
            case THREADS -> contender % 10 == 9;
            case CALLS -> (contender + call) % 10 == 9;
            case PERMITS_OF_EIGHT -> false;
        };
    }

    /** As the command line has it: the part after the dash of "commands-threads". */
    static Shares named(String way) {
        int dash = way.indexOf('-');
        return switch (dash < 0 ? "" : way.substring(dash + 1)) {
            case "" -> NONE;
            case "threads" -> THREADS;
            case "calls" -> CALLS;
            case "permits" -> PERMITS_OF_EIGHT;
            default -> throw new IllegalArgumentException("no such shares: " + way);
        };
    }
}
