package io.github.redislock.spi;

/** An error that the server replied. */
public final class ReplyError extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** An error with its whole text, whose first word is for programs. */
    public ReplyError(String text) {
        super(text, null, false, false);
    }

    /** The whole text. */
    @Override
    public String getMessage() {
        return String.valueOf(super.getMessage());
    }
}
