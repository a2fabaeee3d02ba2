//! The holds and grants that calls give back if their clients did not get the reply.

use super::script::{each, story};

/// Ann has these waiting calls, and is granted the lock after dan releases it. Then each row happens.
fn granted(calls: &[&str], rows: &str) {
    let calls: Vec<_> = calls
        .iter()
        .map(|call| format!("ann acquire {call} block 0;"))
        .collect();
    each(
        &format!("dan acquire; {} dan release; = ann", calls.concat()),
        rows,
    );
}

#[test]
fn a_grant_without_an_answered_call_is_given_back_completely() {
    granted(
        &[""],
        "
        abandon 0; = ann; tick; = free
        write 0; abandon 0; tick; = free                    # the server drops a written reply
    ",
    );
    let two = "
        abandon 0; tick; = ann holds 1; abandon 1; tick; = free
        abandon 1; tick; = ann holds 1; abandon 0; tick; = free
        abandon 0; abandon 1; tick; = free
    ";
    granted(&["", ""], two);
    granted(&["", "holds 1"], two);
    granted(
        &["", "", "holds 1"],
        "abandon 1; abandon 0; tick; = ann holds 1; abandon 2; tick; = free",
    );
}

#[test]
fn the_lock_goes_to_the_next_in_line_before_any_other_command_on_it() {
    granted(
        &[""],
        "
        bob acquire block 0; abandon 0; cat acquire -> nil; = bob; = call 1 Granted
        bob acquire block 0; abandon 0; tick; = bob
        abandon 0; ann release -> NOTHELD
    ",
    );
}

#[test]
fn a_grant_with_an_answered_or_pending_call_keeps_a_hold() {
    granted(
        &["", ""],
        "
        abandon 0; tick; = ann holds 1; write 1; send; = ann
        write 0; send; abandon 1; tick; = ann holds 1
        write 1; send; abandon 0; tick; = ann holds 1
    ",
    );
    granted(
        &["", "holds 1"],
        "
        abandon 0; tick; = ann holds 1                      # the last hold stays
        write 1; send; abandon 0; tick; = ann holds 1
    ",
    );
    granted(
        &["", "", "holds 1"],
        "
        write 0; send; abandon 2; tick; = ann holds 2       # it took none
        abandon 0; abandon 1; tick; = ann holds 1; write 2; send; = ann
        write 1; send; abandon 0; abandon 2; tick; = ann holds 1
    ",
    );
    // A call that did not wait got its reply, too.
    granted(
        &[""],
        "
        ann acquire holds 1; abandon 0; tick; = ann holds 1
        ann acquire; abandon 0; tick; = ann holds 1
        ann acquire; ann release -> 1; abandon 0; tick; = ann holds 1
        ann renew; abandon 0; tick; = ann holds 1
    ",
    );
}

#[test]
fn the_owner_that_held_the_lock_before_keeps_what_it_had() {
    each(
        "dan acquire; ann acquire block 0; ann acquire holds 1 block 0; restore ann token 200000000; tick",
        "
        = ann holds 2; abandon 0; tick; = ann holds 1; abandon 1; tick; = ann holds 1
        ann release -> 1; abandon 0; tick; = ann holds 1
    ",
    );
}

#[test]
fn giving_back_is_a_release() {
    granted(
        &["", ""],
        "
        pass 100; abandon 0; tick; = ann holds 1 end 130100 # it refreshes the lease
        persist; abandon 0; tick; = ann holds 1 end never   # and never shortens it
    ",
    );
    granted(
        &["", "holds 1"],
        "pass 100; abandon 1; tick; = ann holds 1 end 130000 # none taken, none given back",
    );
    granted(&[""], "del; abandon 0; tick; = free");
    granted(&["shared", "shared"], "
        bob acquire shared px 90000; abandon 0; pass 30001; tick; = bob # an ended lease does not return
    ");
    granted(
        &["shared", "limit 2"],
        "abandon 1; tick; = ann holds 1 limit 2 # the narrower limit stays",
    );
}

#[test]
fn another_grant_is_not_touched() {
    granted(&[""], "
        del; ann acquire -> token 100000002; abandon 0; tick; = ann holds 1
        del; ann acquire; ann acquire; abandon 0; tick; = ann holds 2
        write 0; send; ann release; dan acquire; ann acquire block 0; dan release; abandon 1; tick; = free
        del; dan acquire; ann acquire block 0; dan release; write 0; send; abandon 1; tick; = free
        del; dan acquire; ann acquire block 0; dan release; abandon 0; tick; = ann; abandon 1; tick; = free
    ");
}

#[test]
fn a_raised_grant_is_the_same_grant() {
    let raise = "ann renew token own raise own+5";
    granted(
        &["", ""],
        &format!("{raise}; abandon 0; tick; = ann holds 1; write 1; send"),
    );
    granted(&[""], &format!("{raise}; abandon 0; tick; = ann holds 1"));
    granted(
        &[""],
        &format!("ann acquire; {raise}; abandon 0; tick; = ann holds 1"),
    );
    // A grant that has ended is not raised with the one after it.
    granted(
        &[""],
        &format!("del; ann acquire; {raise}; ann acquire; abandon 0; tick; = ann holds 2"),
    );
}

#[test]
fn each_holder_gives_back_its_own_grant() {
    let line = ["ann", "bob", "cat"]
        .map(|owner| format!("{owner} acquire shared block 0;"))
        .concat();
    each(
        &format!("dan acquire; {line} dan release; = ann bob cat"),
        "
        abandon 1; tick; = ann cat; write 0; send; abandon 2; tick; = ann
        ann renew; abandon 0; abandon 1; tick; = ann cat    # only ann got a reply
        bob release; abandon 1; tick; = ann cat             # bob's grant has gone
    ",
    );
}

#[test]
fn a_sent_reply_that_was_not_read_gives_back_an_unchanged_grant() {
    let sent = "dan acquire; ann acquire block 0; dan release; write 0; send; = call 0 Sent";
    each(
        sent,
        "
        unsent 0; tick; = free
        bob acquire block 0; unsent 0; tick; = bob
        ann acquire; unsent 0; tick; = ann
        ann renew px 60000; unsent 0; tick; = ann
        ann renew token own raise own+5; unsent 0; tick; = ann
        pexpire 5; unsent 0; tick; = ann
        del; ann acquire; unsent 0; tick; = ann
        del; unsent 0; tick; = free
        confirm 0; = call 0 Answered
    ",
    );
    // Beside others the expiry of the key is not the end of a holder's lease.
    story(
        "
        dan acquire; ann acquire shared block 0; dan release; write 0; send
        bob acquire shared; pexpire 500; unsent 0; tick; = bob
    ",
    );
    // Another call of the grant got its reply, or will get it.
    granted(
        &[""],
        "ann acquire holds 1; write 0; send; = call 0 Answered",
    );
    granted(&["", ""], "write 0; send; = call 0 Answered");
    granted(&["shared", "shared"], "write 0; send; = call 0 Answered");
}

#[test]
fn a_raise_to_the_token_of_an_ended_grant_does_not_revive_that_grant() {
    let raised = "dan acquire; bob acquire shared block 0; cat acquire shared block 0; dan release
        write 0; send; confirm 0; cat release; bob renew limit 1; bob renew token own raise own+1 -> token 100000002
        bob renew shared; bob acquire shared";
    each(
        raised,
        "
        write 1; send; = call 1 Sent
        cat acquire shared; abandon 1; tick; = bob cat
    ",
    );
}
