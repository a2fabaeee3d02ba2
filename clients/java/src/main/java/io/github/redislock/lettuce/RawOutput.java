package io.github.redislock.lettuce;

import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.CommandOutput;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** A reply as it came: a Long, a String, a List of such, or null. */
final class RawOutput extends CommandOutput<byte[], byte[], @Nullable Object> {
    private record Level(List<@Nullable Object> values, int depth) {}

    private final Deque<Level> open = new ArrayDeque<>();
    private int begun;

    RawOutput() {
        super(ByteArrayCodec.INSTANCE, null);
    }

    private void add(@Nullable Object value) {
        Level level = open.peek();
        if (level == null) {
            output = value;
        } else {
            level.values.add(value);
        }
    }

    @Override
    public void set(@Nullable ByteBuffer bytes) {
        add(bytes == null ? null : StandardCharsets.UTF_8.decode(bytes).toString());
    }

    @Override
    public void setSingle(@Nullable ByteBuffer bytes) {
        set(bytes);
    }

    @Override
    public void set(long number) {
        add(number);
    }

    @Override
    public void set(double number) {
        add(number);
    }

    @Override
    public void set(boolean flag) {
        add(flag ? 1L : 0L);
    }

    @Override
    public void multi(int count) {
        if (count < 0) {
            return; // a nil, which is told by set(null) or by nothing
        }
        List<@Nullable Object> values = new ArrayList<>(count);
        add(values);
        open.push(new Level(values, begun++));
    }

    /** The parser tells the end of each reply, with the depth of what is around it. */
    @Override
    public void complete(int depth) {
        while (!open.isEmpty() && open.peek().depth >= depth) {
            open.pop();
            begun--;
        }
    }
}
