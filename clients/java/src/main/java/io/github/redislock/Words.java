package io.github.redislock;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The words of a command. */
final class Words {
    static final byte[][] PING = of("PING").bytes();

    private final List<byte[]> all = new ArrayList<>(16);

    static Words of(Object... words) {
        return new Words().and(words);
    }

    Words and(Object... words) {
        for (Object word : words) {
            all.add(String.valueOf(word).getBytes(StandardCharsets.UTF_8));
        }
        return this;
    }

    byte[][] bytes() {
        return all.toArray(byte[][]::new);
    }
}
