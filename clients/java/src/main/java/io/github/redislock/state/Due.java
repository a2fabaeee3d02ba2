package io.github.redislock.state;

import io.github.redislock.spi.Reply;
import java.util.function.ObjLongConsumer;

/** A command that is sent before a POLL, and what applies its reply and the time when it was sent. */
public record Due(String[] command, ObjLongConsumer<Reply> apply) {}
