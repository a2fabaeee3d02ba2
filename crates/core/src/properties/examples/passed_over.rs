//! Calls of sessions: queued ones, and those that are passed over while their program may be dead or frozen.

use super::script::{each, story};

/// Ann holds the lock. Bob waits for it in session 0, cat in session 1, dan in none.
const LINE: &str = "
    ann acquire; bob acquire holds 1 session 0 queue 50 -> waits
    cat acquire holds 1 session 1 queue 0 -> waits; dan acquire block 0 -> waits
";

#[test]
fn a_queued_call_waits_in_the_same_line_and_its_session_gets_the_grant_at_once() {
    each(
        LINE,
        "
        ann release; = bob; = call 0 Told; bob release; = cat; cat release; = dan
        pass 50; tick; = line cat dan; = call 0 TimedOut
        bob release all -> 0; = line cat dan; = call 0 Cancelled
        end 0; = line cat dan; = call 0 SessionEnded; ann release; = cat
        end 1; end 0; tick; = line dan; ann release; = dan
    ",
    );
}

#[test]
fn a_repeated_call_takes_no_second_place() {
    each(
        LINE,
        "
        bob acquire holds 1 session 0 queue 9 px 70; = line bob cat dan; ann release; = bob lease 30000
        bob acquire holds 1 session 1 queue 9 -> waits; = line bob cat dan bob  # another program's
        bob acquire holds 1 session 0 block 9 -> waits; = line bob cat dan bob  # a blocked call
        cat acquire holds 1 session 0 queue 9 -> waits; = line bob cat dan cat
        ann release; bob acquire holds 1 session 0 queue 9 -> holds 1           # it was granted
    ",
    );
    // Where a call counts on holds that are lost, the one in line is not judged before its turn.
    story(
        "
        ann acquire; bob acquire holds 2 session 0 queue 0 -> NOTOWNER
        bob acquire holds 1 session 0 queue 0; bob acquire holds 2 session 0 queue 0 -> NOTOWNER
        ann release; = bob; leave 0; bob acquire holds 2 session 0 queue 0 -> holds 2
    ",
    );
}

#[test]
fn calls_behind_a_program_that_is_away_are_granted_first_and_it_keeps_its_place() {
    each(
        LINE,
        "
        leave 0; ann release; = cat; return 0; = line bob dan; cat release; = bob
        leave 0; leave 1; ann release; = dan; return 1; return 0; dan release; = bob; bob release; = cat
        leave 0; return 0; ann release; = bob
        leave 0; leave 1; end 1; ann release; = dan; return 0; dan release; = bob
        leave 0; leave 1; dan release all; ann release; = line bob cat; return 1; tick; = cat
        leave 0; leave 1; del; tick; = dan; return 0; dan release; = bob
        leave 0; pass 50; tick; = line cat dan; = call 0 TimedOut               # its time runs
        leave 0; bob release all -> 0; = line cat dan; = call 0 Cancelled
        leave 0; end 0; return 0; ann release; = cat; = call 0 SessionEnded
        leave 0; bob acquire holds 1 session 0 queue 9; = line bob cat dan      # repeated
    ",
    );
    // A blocked call with a session too.
    story(
        "
        ann acquire; bob acquire session 0 block 0; cat acquire block 0
        leave 0; ann release; = cat; return 0; cat release; = bob; = call 0 Granted
    ",
    );
}

#[test]
fn a_newcomer_passes_only_calls_that_are_passed_over() {
    let away =
        "ann acquire; bob acquire holds 1 session 0 queue 0; leave 0; ann release; = line bob";
    each(
        away,
        "
        cat acquire -> holds 1
        bob acquire holds 1 session 0 queue 0; = line bob   # only a POLL brings it back
        cat acquire holds 1 session 0 queue 0 -> holds 1    # a first call is judged like any newcomer's
        cat acquire; dan acquire holds 1 session 1 queue 0 -> waits; cat release; = dan; return 0; dan release; = bob
        return 0; cat acquire -> nil; = bob
        return 0; tick; = bob
    ",
    );
    each(
        &LINE.replace("dan acquire block 0 -> waits", "leave 0"),
        "
        dan acquire -> nil; ann release; dan acquire -> nil; = cat
        dan acquire holds 1 session 0 queue 0 -> waits; ann release; = cat; cat release; = line bob dan
        del; dan acquire -> nil; = cat
    ",
    );
}

#[test]
fn shared_calls_behind_a_call_that_is_passed_over_get_in() {
    each(
        "
        ann acquire shared; bob acquire holds 1 session 0 queue 0; cat acquire shared block 0
        dan acquire shared block 0; = line bob cat dan
    ",
        "
        leave 0; tick; = ann cat dan; = line bob; return 0; bob acquire shared -> nil; ann release; cat release; dan release; = bob
        leave 0; bob acquire shared -> holds 1; return 0; tick; = ann cat dan bob; = call 0 NOTALONE
    ",
    );
}

#[test]
fn a_call_that_is_passed_over_is_no_re_entry_of_its_owner() {
    story(
        "
        ann acquire; bob acquire block 0; bob acquire holds 2 session 0 block 0 -> NOTOWNER
        bob acquire session 0 block 0; leave 0; ann release; = bob holds 1; = line bob
        bob acquire -> holds 2; = line bob; return 0; tick; = bob holds 3
    ",
    );
    story(
        "
        ann acquire shared; bob acquire session 0 block 0; leave 0; bob acquire shared -> holds 1
        = ann bob; ann release; = line bob; return 0; tick; = bob holds 2 limit 1
    ",
    );
}

#[test]
fn a_call_that_is_no_longer_passed_over_may_be_a_re_entry_behind_a_call_without_room() {
    each(
        "
        ann acquire shared; bob acquire session 0 block 0; cat acquire shared session 1 block 0
        leave 1; leave 0; cat acquire shared -> holds 1; return 0; tick; = line bob cat
    ",
        "
        return 1; tick; = ann cat; = line bob; = cat holds 2
        return 1; dan acquire shared -> nil; = line bob; = cat holds 2
        cat release; return 1; tick; = line bob cat
    ",
    );
}

#[test]
fn a_grant_whose_session_has_the_event_keeps_a_hold() {
    each(
        "
        dan acquire; ann acquire block 0; ann acquire holds 1 session 0 queue 0; ann acquire block 0
        dan release; = ann holds 2; = call 1 Told
    ",
        "
        abandon 0; abandon 2; tick; = ann holds 1
        abandon 2; abandon 0; tick; = ann holds 1
        write 0; send; = call 0 Answered; abandon 2; tick; = ann holds 1
    ",
    );
}
