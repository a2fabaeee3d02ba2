//! What a few contenders told, and what is made of them. Times are in milliseconds.

use crate::quorum::note::{Event, Note, Release};
use crate::quorum::process::Record;
use crate::run::Run;
use history::{History, Kind, Mode, Moment, Outcome};
use std::time::Duration;

/// Before this was nothing.
const ORIGIN: Moment = 5_000_000;

/// What was made of it.
struct Told {
    history: History,
    troubles: Vec<String>,
}

fn read(records: &[Record], strict: bool) -> Told {
    let run = Run::new(1, 1, Duration::ZERO).begun_at(ORIGIN);
    let history = super::read(records, &run, strict);
    let findings = run.into_findings();
    Told {
        history,
        troubles: findings.troubles,
    }
}

fn at(ms: u64) -> Moment {
    ORIGIN + ms * 1000
}

fn notes(events: impl IntoIterator<Item = Event>) -> Vec<Note> {
    let key = || "lock".to_owned();
    events
        .into_iter()
        .map(|event| Note {
            task: 0,
            key: key(),
            event,
        })
        .collect()
}

/// What one contender told that ended as it should.
fn contender(number: u32, events: impl IntoIterator<Item = Event>) -> Record {
    Record {
        number,
        notes: notes(events),
        stops: Vec::new(),
        was_killed: false,
        has_ended_well: true,
    }
}

fn asks(sent: u64, patience: u64) -> Event {
    Event::Asks {
        sent: at(sent),
        patience: patience * 1000,
    }
}

fn granted(token: u64, sent: u64, ended: u64, until: u64) -> Event {
    Event::Granted {
        owner: format!("owner of {token}"),
        token,
        lease: 1000,
        sent: at(sent),
        ended: at(ended),
        until: at(until),
    }
}

fn released(token: u64, sent: u64) -> Event {
    Event::Released {
        owner: format!("owner of {token}"),
        sent: at(sent),
        ended: at(sent + 1),
        release: Release::Done,
    }
}

fn gives_back(token: u64, sent: u64) -> Event {
    Event::GivesBack {
        owner: format!("owner of {token}"),
        sent: at(sent),
    }
}

fn wrote(token: u64, sent: u64, is_taken: bool) -> Event {
    Event::Wrote {
        token,
        sent: at(sent),
        ended: at(sent + 1),
        taken: is_taken,
    }
}

fn spans(told: &Told) -> Vec<(u64, Moment, Moment)> {
    let trusts = told.history.trusts.iter();
    trusts
        .map(|trust| (trust.token, trust.span.from / 1000, trust.span.to / 1000))
        .collect()
}

fn kinds(told: &Told) -> Vec<Kind> {
    let report = history::check(&told.history, Mode::Split);
    report.violations.iter().map(|found| found.kind).collect()
}

#[test]
fn trust_goes_from_the_answer_to_its_end_or_to_the_release() {
    let renewed = Event::Trusts {
        token: 7,
        until: at(1500),
    };
    let records = [
        contender(1, [granted(5, 0, 10, 980)]),
        contender(
            2,
            [granted(6, 0, 20, 980), gives_back(6, 400), released(6, 400)],
        ),
        contender(3, [granted(7, 0, 30, 980), renewed]),
    ];
    let told = read(&records, true);
    assert_eq!(spans(&told), [(5, 10, 980), (6, 20, 400), (7, 30, 1500)]);
    assert_eq!(told.troubles, [""; 0]);
}

#[test]
fn who_is_killed_holds_until_the_end_of_the_trust() {
    let mut killed = contender(1, [granted(5, 0, 10, 980)]);
    killed.was_killed = true;
    killed.has_ended_well = false;
    let next = contender(
        2,
        [
            granted(6, 20, 500, 1400),
            gives_back(6, 600),
            released(6, 600),
        ],
    );
    let told = read(&[killed, next], true);
    assert!(told.troubles.is_empty(), "{:?}", told.troubles);
    assert!(
        kinds(&told).contains(&Kind::Exclusion),
        "{:?}",
        kinds(&told)
    );
}

#[test]
fn who_is_killed_while_it_gives_the_lock_back_may_have_given_it_back() {
    let mut killed = contender(1, [granted(5, 0, 10, 980), gives_back(5, 30)]);
    killed.was_killed = true;
    let next = contender(2, [granted(6, 20, 50, 1000)]);
    let told = read(&[killed, next], true);
    assert_eq!(spans(&told), [(5, 10, 30), (6, 50, 1000)]);
    assert_eq!(kinds(&told), []);
}

#[test]
fn a_lock_that_is_lost_before_its_time_is_told_of_where_that_may_not_be() {
    let lost = || Event::Lost {
        token: 5,
        at: at(300),
    };
    let records = [contender(1, [granted(5, 0, 10, 980), lost()])];
    assert_eq!(read(&records, true).troubles.len(), 1);
    let told = read(&records, false);
    assert_eq!(spans(&told), [(5, 10, 300)]);
    assert!(told.troubles.is_empty(), "{:?}", told.troubles);
}

#[test]
fn an_answer_that_comes_late_or_never_is_told_of() {
    let denied = |ended| Event::Denied {
        sent: at(0),
        ended: at(ended),
        reason: None,
    };
    let in_time = contender(1, [asks(0, 500), denied(700)]);
    let late = contender(2, [asks(0, 500), denied(9000)]);
    let never = contender(3, [asks(0, 500)]);
    let mut stopped = contender(4, [asks(0, 500), denied(9000)]);
    stopped.stops.push((at(100), at(8500)));
    let mut killed = contender(5, [asks(0, 500)]);
    killed.was_killed = true;
    let troubles = |record| read(&[record], true).troubles.len();
    let all = [in_time, late, never, stopped, killed].map(troubles);
    assert_eq!(all, [0, 1, 1, 0, 0]);
}

#[test]
fn a_late_write_is_counted_where_it_is_refused_and_a_violation_where_it_is_taken() {
    let told = |taken| {
        let stale = contender(1, [granted(5, 0, 10, 200), wrote(5, 420, taken)]);
        let next = contender(2, [granted(6, 20, 400, 900), wrote(6, 410, true)]);
        read(&[stale, next], true)
    };
    let refused = told(false);
    let report = history::check(&refused.history, Mode::Split);
    assert!(report.passed(), "{report}");
    let stale: usize = report.counts.writes.values().map(|w| w.stale_refused).sum();
    assert_eq!(stale, 1);
    assert_eq!(kinds(&told(true)), [Kind::RegisterWentBack]);
}

/// Server 3 of five is ahead of time. The first has servers 1, 2 and 3, and its token is that of 3;
/// nobody raises those of 1 and 2 to it. Then 3 is down, and the next has 1, 2 and 4.
#[test]
fn a_lock_without_the_raise_is_found_out() {
    let first = contender(
        1,
        [
            granted(600_000, 0, 5, 980),
            gives_back(600_000, 10),
            released(600_000, 10),
        ],
    );
    let next = contender(2, [granted(20_000, 20, 25, 900)]);
    let told = read(&[first, next], true);
    assert_eq!(kinds(&told), [Kind::TokenOrder]);
}

#[test]
fn a_lock_that_is_given_back_by_itself_at_the_end_of_the_trust_is_no_other_s_too_early() {
    let first = contender(1, [granted(5, 0, 1, 988)]);
    let next = contender(2, [granted(6, 100, 990, 1900)]);
    let told = read(&[first, next], true);
    assert_eq!(kinds(&told), []);
    let outcome = &told.history.calls[0].outcome;
    assert!(
        matches!(outcome, Outcome::Grant { lease: 988, .. }),
        "{outcome:?}"
    );
}
