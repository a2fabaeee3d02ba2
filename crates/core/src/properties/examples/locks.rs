//! Exclusive locks: every rule and every refusal of a call.

use super::script::each;

#[test]
fn a_free_lock() {
    each("", "
        ann acquire             -> token 100000000 holds 1 lease 30000 limit 1 end 130000 # the default lease
        ann acquire px 1        -> lease 1 end 100001       # a shorter lease given is the grant's
        ann acquire px 60000    -> lease 60000 end 160000   # a longer lease given is the grant's
        ann acquire holds 1     -> holds 1 end 130000       # HOLDS 1 counts on no earlier hold
        ann acquire holds 2     -> NOTHELD                  # HOLDS 2 counts on a hold that is lost
        ann acquire holds 2147483647    -> NOTHELD
        ann acquire token 90000000      -> NOTHELD          # TOKEN only re-enters
        ann acquire token 90000000 holds 1 -> NOTHELD
        ann release                     -> NOTHELD
        ann release all                 -> NOTHELD
        ann release holds 0             -> NOTHELD
        ann release token 90000000      -> NOTHELD          # before FENCED
        ann renew                       -> NOTHELD
        ann renew token 1               -> NOTHELD          # before FENCED
        ann renew token 1 raise 105000001 -> NOTHELD        # before AHEAD
        fence 90000000                  -> FENCED
    ");
}

#[test]
fn the_lock_of_another_owner() {
    each(
        "restore ann holds 5",
        "
        bob acquire             -> nil
        bob acquire px 60000    -> nil                      # whatever lease it asks for
        cat acquire -> nil; dan acquire -> nil              # owners differ in every byte
        bob acquire holds 1     -> nil                      # HOLDS 1 counts on no earlier hold
        bob acquire holds 2     -> NOTOWNER                 # however many the holder has
        bob acquire token 90000000  -> NOTOWNER             # TOKEN only re-enters
        bob acquire token 1         -> NOTOWNER             # before FENCED
        bob acquire token 90000000 holds 1 -> NOTOWNER
        bob release             -> NOTOWNER
        dan release all         -> NOTOWNER
        bob release holds 0     -> NOTOWNER
        bob release holds 1     -> NOTOWNER
        bob release all token 90000000 -> NOTOWNER          # with the holder's token too
        bob release all token 1 -> NOTOWNER                 # before FENCED
        bob renew               -> NOTOWNER
        bob renew token 90000000 -> NOTOWNER
        bob renew token 1       -> NOTOWNER                 # before FENCED
        bob renew token 1 raise 90000000  -> NOTOWNER       # at the raised token too
        bob renew token 1 raise 105000001 -> NOTOWNER       # before AHEAD
        persist; bob acquire    -> nil
    ",
    );
}

#[test]
fn re_entry() {
    each("", "
        restore ann; ann acquire            -> token 90000000 holds 2 lease 30000 end 130000
        restore ann; ann acquire px 60000   -> holds 2 lease 60000 end 160000 # a longer lease is remembered
        restore ann; ann acquire px 5       -> holds 2 lease 30000 end 130000 # a shorter lease is not
        restore ann; ann acquire px 315360000000 -> end 315360100000          # the longest lease
        restore ann end 900000; ann acquire -> holds 2 lease 30000 end 900000 # a later end stays
        restore ann end 900000; ann acquire px 60000 -> holds 2 lease 60000 end 900000
        restore ann end never; ann acquire  -> holds 2 lease 30000 end never
        restore ann end never; ann acquire px 60000  -> holds 2 lease 60000 end never
        restore ann holds 2147483646; ann acquire -> holds 2147483647
        restore ann holds 2147483647; ann acquire -> ERR hold count at its limit
    ");
}

#[test]
fn holds_wanted() {
    each("restore ann holds 3", "
        ann acquire holds 4     -> holds 4 end 130000       # one short: it is added
        ann acquire holds 3     -> holds 3 end 130000       # it has them: only the lease is refreshed
        ann acquire holds 2     -> holds 3 end 130000
        ann acquire holds 1     -> holds 3 end 130000       # HOLDS 1 never adds to a lock held
        ann acquire holds 3 px 60000 -> holds 3 lease 60000 end 160000
        ann acquire holds 3 px 5     -> holds 3 lease 30000 end 130000
        ann acquire holds 5     -> NOTHELD                  # two short: a hold is lost
        ann acquire holds 2147483647 -> NOTHELD
        pexpire 800000; ann acquire holds 3 -> holds 3 end 900000
        persist; ann acquire holds 3 -> holds 3 end never
        pexpire 30000; ann acquire holds 3 -> holds 3 end 130000
    ");
    each(
        "",
        "
        restore ann holds 2147483645; ann acquire holds 2147483647 -> NOTHELD
        restore ann holds 2147483646; ann acquire holds 2147483647 -> holds 2147483647
        restore ann holds 2147483647; ann acquire holds 2147483647 -> holds 2147483647
    ",
    );
}

#[test]
fn a_token_ties_a_call_to_its_grant() {
    each("restore ann holds 3", "
        ann acquire token own           -> holds 4 end 130000
        ann acquire token own holds 1   -> holds 3 end 130000
        ann acquire token own-1         -> FENCED           # an earlier grant of the same owner
        ann acquire token own+1         -> FENCED
        ann acquire token 1 holds 1     -> FENCED           # with HOLDS that are there
        ann acquire token 1 holds 5     -> NOTHELD          # before FENCED
        ann release token own           -> 2
        ann release all token own       -> 0
        ann release holds 2 token own   -> 2
        ann release token own-1         -> FENCED
        ann release all token own-1     -> FENCED
        ann release holds 3 token own-1 -> FENCED           # with HOLDS that change nothing
        ann release token own+1         -> FENCED
        ann renew token own             -> end 130000
        ann renew token own-1           -> FENCED
        ann renew token own+1           -> FENCED
        fence own                       -> OK
        fence own-1                     -> FENCED
        fence own+1                     -> FENCED
        restore ann token 100000000 holds 2147483647; ann acquire token 1 -> FENCED # before the most holds
    ");
}

#[test]
fn a_release() {
    each("", "
        restore ann holds 3; ann release -> 2; = ann holds 2 end 130000 # the lease is refreshed
        restore ann holds 2147483647; ann release -> 2147483646; = ann holds 2147483646
        restore ann holds 3 end 900000; ann release -> 2; = ann holds 2 end 900000 # a later end stays
        restore ann holds 3 end never; ann release -> 2; = ann holds 2 end never
        restore ann; ann release -> 0; = free               # the last hold
        restore ann end never; ann release -> 0; = free
        restore ann holds 3; ann release all -> 0; = free
        restore ann holds 2147483647; ann release all -> 0; = free
        restore ann holds 3; ann release holds 1 -> 1; = ann holds 1 end 130000 # down to it
        restore ann holds 3 end 900000; ann release holds 1 -> 1; = ann holds 1 end 900000
        restore ann holds 3 end never; ann release holds 1 -> 1; = ann holds 1 end never
        restore ann holds 3; ann release holds 0 -> 0; = free
        restore ann holds 3; ann release holds 3 -> 3; = ann holds 3 end 120000 # nothing, not even the lease
        restore ann holds 3; ann release holds 4 -> 3; = ann holds 3 end 120000
        restore ann holds 3; ann release holds 4294967295 -> 3; = ann holds 3 end 120000
    ");
}

#[test]
fn a_renewal() {
    each(
        "",
        "
        restore ann; ann renew              -> token 90000000 holds 1 lease 30000 end 130000
        restore ann; ann renew px 60000     -> lease 60000 end 160000 # a longer lease is remembered
        restore ann; ann renew px 5         -> lease 5 end 100005     # a shorter lease shortens
        restore ann end 900000; ann renew   -> end 130000   # a later end is drawn in
        restore ann end never; ann renew    -> end 130000   # a persisted lock has an end again
        restore ann end 130000; ann renew   -> end 130000   # repeated in the same moment
        restore ann holds 2147483647; ann renew -> holds 2147483647 end 130000
    ",
    );
}

#[test]
fn a_raise() {
    each(
        "restore ann holds 7",
        "
        ann renew token own raise own+5     -> token 90000005 holds 7 lease 30000 end 130000
        ann renew token own raise own+5 px 60000 -> token 90000005 lease 60000 end 160000
        persist; ann renew token own raise own+5 -> end 130000
        ann renew token own raise own       -> token 90000000 end 130000
        ann renew token own-5 raise own     -> token 90000000 end 130000 # repeated: already there
        ann renew token own raise own-1     -> ERR raise lower than token
        ann renew token own-5 raise own+5   -> FENCED       # from another grant
        ann renew token own-5 raise own-1   -> FENCED
        ann renew token own+5 raise own+6   -> FENCED
        ann renew token own+5 raise own+5   -> FENCED
        ann renew token own-5 raise 105000001 -> FENCED     # before AHEAD
        ann renew token own raise 105000000 -> token 105000000 # as far as the lead
        ann renew token own raise 105000001 -> AHEAD
        ann renew token own raise 9007199254740991 -> AHEAD
        seen 105000008; ann renew token own raise 105000001 -> token 105000001 # below a token seen
        seen 105000008; ann renew token own raise 105000008 -> token 105000008
        seen 105000008; ann renew token own raise 105000009 -> AHEAD
    ",
    );
    each("", "
        start now 0; restore ann; ann renew token own raise own -> token 90000000 # the token that it has
        start now 90000000 lead 0; restore ann; ann renew token own raise own -> token 90000000
        start now 0 lead 18446744073709551615; restore ann; ann renew token own raise 9007199254740991 -> holds 1
        start now 18446744073709551615; restore ann end never; ann renew token own raise 9007199254740991 -> holds 1
        start now 0; restore ann; ann renew token own raise 9007199254740991 -> AHEAD
    ");
}

#[test]
fn the_token_of_a_grant() {
    each("", "
        start now 500 seen 400; ann acquire -> token 500    # the wall clock's, ahead of the last seen
        start now 500 seen 500; ann acquire -> token 501    # the next
        start now 500 seen 700; ann acquire -> token 701    # the wall clock jumped back
        start now 0 seen 0; ann acquire     -> token 1      # the first of all
        start now 500 seen 9007199254740990; ann acquire -> token 9007199254740991 # the highest
        start now 500 seen 9007199254740991; ann acquire -> ERR tokens used up; ann acquire holds 2 -> NOTHELD
        start now 9007199254740992; ann acquire -> ERR tokens used up
        restore ann token 9007199254740991; ann acquire -> holds 2 # a re-entry takes none
        restore ann; ann renew token own raise own+5; ann release; clock 1; bob acquire -> token 90000006
    ");
}
