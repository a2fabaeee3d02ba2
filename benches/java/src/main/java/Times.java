import java.util.Arrays;
import java.util.stream.LongStream;

/** Times in nanoseconds, as they are measured. */
final class Times {
    private long[] all = new long[1024];
    private int count;

    void add(long nanos) {
        if (count == all.length) {
            all = Arrays.copyOf(all, 2 * count);
        }
        all[count++] = nanos;
    }

    LongStream stream() {
        return Arrays.stream(all, 0, count);
    }
}
