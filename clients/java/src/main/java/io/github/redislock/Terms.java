package io.github.redislock;

import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/** All that says how a lock is acquired; times in nanoseconds. */
record Terms(List<String> mode, long lease, boolean isFixed, long atMost, @Nullable Consumer<LockLostException> onLost) {}
