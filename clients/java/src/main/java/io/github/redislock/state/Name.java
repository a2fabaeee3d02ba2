package io.github.redislock.state;

/** Identifies a claim: no two claims of a client have the same key and owner. */
public record Name(String key, String owner) {}
