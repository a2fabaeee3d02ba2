//! Locks with several holders.

use super::script::{each, story};

#[test]
fn no_holder_shares_the_lock_with_more_than_it_allows() {
    each(
        "ann acquire shared; bob acquire limit 3",
        "
        cat acquire limit 2 -> nil
        cat acquire         -> nil
        cat acquire limit 5 -> holds 1 limit 5; dan acquire shared -> nil # bob allows three
        cat acquire holds 2 shared -> NOTOWNER              # others hold it
        cat acquire token 1 shared -> NOTOWNER
        max-holders 2; cat acquire shared block 0 -> waits; max-holders 3; tick; = ann bob cat
    ",
    );
}

#[test]
fn the_only_reader_becomes_the_writer() {
    each("ann acquire shared; bob acquire shared", "
        ann acquire block 0 -> NOTALONE                     # two that wait for each other would never get in
        ann renew limit 1   -> NOTALONE
        ann acquire limit 1 token 1 -> FENCED               # before NOTALONE
        bob release; ann acquire -> limit 1 holds 2; bob acquire shared -> nil
        ann acquire limit 2 -> limit 2 holds 2; cat acquire shared -> nil # no more hold it than that
        ann acquire limit 2; ann acquire limit 5 -> limit 2; ann acquire shared -> limit 2 # a wider one changes nothing
    ");
}

#[test]
fn a_writer_becomes_a_reader_without_releasing() {
    story(
        "
        ann acquire -> token 100000000
        bob acquire shared block 0; cat acquire limit 3 block 0; dan acquire shared block 0
        ann renew shared -> limit 0 token 100000000; = ann bob cat; = line dan
    ",
    );
    // Not by a re-entry, which leaves it exclusive.
    story("ann acquire; ann acquire shared -> limit 1 holds 2; bob acquire shared -> nil");
}

#[test]
fn a_grant_with_several_holds_gets_no_wider_limit() {
    each(
        "ann acquire; ann acquire",
        "
        ann renew shared  -> ERR several holds
        ann renew         -> limit 1 holds 2
    ",
    );
    each(
        "ann acquire limit 2; ann acquire limit 2",
        "
        ann renew limit 3 -> ERR several holds
        ann renew shared  -> ERR several holds
        ann renew limit 2 -> limit 2
        ann renew limit 1 -> limit 1
    ",
    );
}

#[test]
fn a_release_never_widens_and_the_last_one_frees() {
    story(
        "
        ann acquire limit 2; bob acquire limit 2; ann release -> 0
        cat acquire shared -> limit 0; dan acquire shared -> nil # bob still allows two
        cat release -> 0; bob release all -> 0; = free
    ",
    );
}

#[test]
fn every_current_grant_is_fenced_and_no_share_is_raised() {
    each(
        "ann acquire shared; bob acquire limit 2",
        "
        fence 100000000 -> OK
        fence 100000001 -> OK
        fence 100000002 -> FENCED
        ann renew token own raise own   -> ERR not of limit 1
        bob renew token own raise own+1 -> ERR not of limit 1
        bob renew token own-1 raise own-1 -> FENCED
        bob renew token own raise 200000000 -> AHEAD        # before it
    ",
    );
}

#[test]
fn a_lease_is_held_at_its_end_and_not_after_it() {
    story("
        ann acquire limit 2 px 100; bob acquire limit 2 px 200; = expiry 100200
        cat acquire limit 2 block 0 -> waits
        pass 100; tick; = ann bob; fence 100000000 -> OK
        pass 1; = bob; fence 100000000 -> FENCED            # answered without it, before it is taken out
        tick; = bob cat; ann release all -> NOTOWNER
    ");
}

#[test]
fn the_next_change_makes_a_manual_pexpire_permanent() {
    each(
        "ann acquire shared; bob acquire shared",
        "
        pexpire 500; ann renew px 9000; = expiry 109000; persist; = ann end 109000; = bob end 100500
        pexpire 29999; cat acquire shared px 40000; persist; = ann end 129999 # by a millisecond too
        pexpire 500; = ann end 100500; persist; = ann end 130000; = bob end 130000 # none was made
        pexpire 500; = bob end 100500; pexpire 90000; = ann end 130000; = bob end 130000
    ",
    );
}

#[test]
fn a_key_that_outlives_its_holders_counts_as_free() {
    story(
        "
        ann acquire shared; bob acquire shared
        persist; pass 1000; ann release; = expiry 130000    # the next change sets the expiry again
        persist; pass 29001; =; fence 100000001 -> FENCED; bob renew -> NOTHELD; = free
    ",
    );
}

#[test]
fn the_form_of_a_lock_is_decided_before_the_change() {
    // Exclusive: the expiry was the lease, and the re-entry keeps it.
    story("ann acquire; pexpire 90000; ann acquire; = expiry 190000");
    // A lone holder with a wider limit: the expiry extended nothing.
    story("ann acquire shared; pexpire 90000; ann acquire; = expiry 130000");
}
