//! Calls that wait in line.

use super::script::{each, story};

#[test]
fn waiting_calls_are_served_strictly_in_order() {
    story("
        ann acquire limit 5; bob acquire limit 5; cat acquire block 0 -> waits
        ann release; = bob; bob release; = cat              # a plain acquire waits until all are out
        dan acquire limit 5 -> nil                          # and keeps others out
    ");
    story("
        ann acquire shared; bob acquire block 0 -> waits
        cat acquire shared -> nil                           # it has room, and passes nobody
        cat acquire shared block 0 -> waits; dan acquire shared block 0 -> waits
        ann release; = bob; bob release; = cat dan          # the readers at the front get in together
    ");
}

#[test]
fn a_call_that_leaves_the_line_makes_room_for_those_behind() {
    each(
        "ann acquire shared; bob acquire block 50; cat acquire shared block 0",
        "
        disconnect 0; tick; = ann cat
        bob release all -> 0; tick; = ann cat
        pass 50; tick; = ann cat
        ann acquire shared -> holds 2; = line bob cat       # a re-entry goes out of turn
    ",
    );
}

#[test]
fn however_the_lock_becomes_free_the_first_in_line_gets_it() {
    let rest = "= bob; = bob lease 70; = line cat; = call 0 Granted";
    for end in [
        "ann release",
        "ann release all",
        "del; tick",
        "pass 30001; tick",
        "pexpire 5; pass 6; tick",
        "ann renew px 5; pass 6; tick",
        "clock 130001; tick",
    ] {
        story(&format!(
            "ann acquire; bob acquire px 70 block 0; cat acquire block 0; {end}; {rest}"
        ));
    }
}

#[test]
fn waiting_calls_with_room_at_the_front_go_first() {
    each(
        "ann acquire; bob acquire block 0; del",
        "cat acquire -> nil; = bob\n ann renew -> NOTOWNER; = bob",
    );
}

#[test]
fn a_wait_ends_at_its_timeout_and_not_by_a_step_of_the_wall_clock() {
    each("ann acquire; bob acquire block 50; cat acquire block 51", "
        clock 120000; tick; = line bob cat; clock 80000; pass 50; tick; = line cat; = call 0 TimedOut
        pass 50; ann release; = cat; = call 0 TimedOut     # nor is it granted the lock after that
    ");
}

#[test]
fn an_owner_cancels_its_waits_by_releasing_all() {
    story(
        "
        ann acquire; bob acquire block 0; cat acquire block 0; bob acquire block 0
        bob release all token 7 -> NOTOWNER                 # with TOKEN it cancels none
        bob release -> NOTOWNER; = line bob cat bob
        bob release all -> 0; = line cat; = call 2 Cancelled
        bob release all -> NOTOWNER                         # none are left
    ",
    );
}

#[test]
fn an_owners_waiting_calls_are_judged_together_with_its_grant() {
    story("
        ann acquire; bob acquire shared block 0; cat acquire shared block 0; bob acquire shared block 0
        ann release; = bob cat; = bob holds 2 token 100000001
    ");
    story(
        "
        ann acquire; bob acquire shared block 0; cat acquire shared block 0; cat acquire block 0
        ann release; = call 2 NOTALONE                      # cat holds it with bob
    ",
    );
    // An exclusive grant comes with all holds at once, whoever stands between.
    story(
        "
        ann acquire; bob acquire block 0; cat acquire block 0; bob acquire holds 2 -> NOTOWNER
        bob acquire block 0; bob acquire holds 1 block 0; ann release; = bob holds 2; = line cat
    ",
    );
}

#[test]
fn a_waiting_call_is_judged_where_its_owner_holds_the_lock_already() {
    each(
        "ann acquire; cat acquire block 0; bob acquire block 0",
        "
        restore bob token 200000000 limit 2 cat limit 2; tick; = call 0 NOTALONE; = call 1 NOTALONE
        restore bob token 200000000; tick; = bob holds 2; = line cat
    ",
    );
}

#[test]
fn a_lease_without_waiters_ends_when_the_lock_is_next_opened() {
    story(
        "
        ann acquire; bob acquire shared px 70 block 0; ann release; = bob
        pexpire 90; write 0; send; pass 80; tick             # bob's call has its reply and waits no longer
        = expiry 100090; cat acquire; = cat
    ",
    );
}
