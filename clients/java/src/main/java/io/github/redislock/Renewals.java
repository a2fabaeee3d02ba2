package io.github.redislock;

import io.github.redislock.Meaning.Kind;
import java.io.IOException;

/** Has grants kept on a keeper's line: each is asked for until it is answered by more than a passing error. */
final class Renewals {
    private final Core core;
    private final Keeper keeper;
    private final Rivals rivals;

    Renewals(Core core, Keeper keeper, Rivals rivals) {
        this.core = core;
        this.keeper = keeper;
        this.rivals = rivals;
    }

    /** One that was kept on another line, or not yet. In a name that others may use too, only where nobody else keeps it now. */
    void restore(Held grant, Line on) {
        restore(grant, on, 0);
    }

    private void restore(Held grant, Line on, long paused) {
        Claim claim = grant.claim();
        if (claim != null) {
            look(grant, claim, on, paused);
        } else {
            renew(grant, on, paused);
        }
    }

    private void look(Held grant, Claim claim, Line on, long paused) {
        int entries = grant.entries().begun();
        rivals.keep(grant.key(), claim, on).whenComplete((isOthers, thrown) -> {
            if (thrown != null) {
                again(grant, on, paused, Line.unwrapped(thrown), () -> restore(grant, on, Core.nextPause(paused)));
            } else if (isOthers && grant.entries().isAnySince(entries)) { // which may have taken it over since
                again(grant, on, 0, new IOException("entered again"), () -> restore(grant, on, 0));
            } else if (isOthers) {
                grant.lose(new IOException(Rivals.WHY));
            } else {
                renew(grant, on, paused);
            }
        });
    }

    /** The answer tells how it is. */
    private void renew(Held grant, Line on, long paused) {
        grant.renewOn(on).whenComplete((answer, thrown) -> {
            if (thrown != null || !grant.isHeld()) {
                return; // the end of the line is dealt with by itself
            }
            if (answer.error() == null) {
                grant.kept(answer);
                keeper.pingSoon(grant.pace());
                return;
            }
            switch (Meaning.of(answer.error(), Kind.RENEW)) {
                case PASSING, REFUSED -> again(grant, on, paused, answer.error(),
                        () -> restore(grant, on, Core.nextPause(paused)));
                default -> grant.lose(answer.error());
            }
        });
    }

    private void again(Held grant, Line on, long paused, Throwable why, Runnable call) {
        keeper.judgeLater();
        if (String.valueOf(why.getMessage()).startsWith("MOVED")) {
            core.refresh().whenComplete((nothing, failure) -> keeper.rehome(grant));
        }
        core.after(Core.jittered(Core.nextPause(paused)), () -> {
            if (keeper.keeps(grant, on)) {
                call.run();
            }
        });
    }
}
