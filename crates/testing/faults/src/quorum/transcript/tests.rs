//! Reports of a few contenders, and the history made of them. Times are in milliseconds.

use crate::quorum::event::{Event, trusted_lease};
use crate::quorum::process::Record;
use crate::run::Run;
use history::{Acquire, Action, Call, Granted, History, Kind, Mode, Moment, Outcome};
use std::time::Duration;

/// The resulting history.
struct Told {
    history: History,
    troubles: Vec<String>,
}

fn read(records: &[Record], strict: bool) -> Told {
    let run = Run::new(1, 1, Duration::ZERO);
    let history = super::read(records, &run, strict);
    let findings = run.into_findings();
    Told {
        history,
        troubles: findings.troubles,
    }
}

fn at(ms: u64) -> Moment {
    ms * 1000
}

/// The reports of one contender of one task that ended as it should.
fn contender(number: u32, events: impl IntoIterator<Item = Vec<Event>>) -> Record {
    let mut events: Vec<_> = events.into_iter().flatten().collect();
    for event in &mut events {
        match event {
            Event::Sends { call, .. } | Event::Ends { call, .. } => call.client = number,
            Event::Trusts { client, .. } | Event::Lost { client, .. } => *client = number,
            Event::Wrote(_) => {}
        }
    }
    Record {
        number,
        events,
        stops: Vec::new(),
        was_killed: false,
        has_ended_well: true,
    }
}

fn call(action: Action, owner: &str, sent: u64) -> Call {
    Call::sent(0, "lock", owner, action, at(sent))
}

fn acquire(owner: &str, sent: u64) -> Call {
    let asks = Acquire {
        lease: Some(1000),
        block: true,
        ..Acquire::default()
    };
    call(Action::Acquire(asks), owner, sent)
}

fn release(token: u64, sent: u64) -> Call {
    call(Action::RELEASE, &format!("owner of {token}"), sent)
}

fn ends(call: Call, ended: u64, outcome: Outcome) -> Event {
    let call = call.ended(at(ended), outcome);
    Event::Ends { call, reason: None }
}

fn asks(sent: u64, patience: u64) -> Vec<Event> {
    vec![Event::Sends {
        call: acquire("", sent),
        patience: at(patience),
    }]
}

fn denied(ended: u64) -> Vec<Event> {
    vec![ends(acquire("", 0), ended, Outcome::Nil)]
}

fn trusts(until: u64) -> Vec<Event> {
    vec![Event::Trusts {
        client: 0,
        until: at(until),
    }]
}

fn granted(token: u64, sent: u64, ended: u64, until: u64) -> Vec<Event> {
    let owner = format!("owner of {token}");
    let outcome = Outcome::Grant(Granted {
        limit: None,
        token,
        owner: owner.clone(),
        holds: 1,
        lease: trusted_lease(1000, at(ended), at(until)),
    });
    let mut events = vec![ends(acquire(&owner, sent), ended, outcome)];
    events.extend(trusts(until));
    events
}

fn gives_back(token: u64, sent: u64) -> Vec<Event> {
    vec![Event::Sends {
        call: release(token, sent),
        patience: 0,
    }]
}

fn released(token: u64, sent: u64) -> Vec<Event> {
    let mut events = gives_back(token, sent);
    events.push(ends(release(token, sent), sent + 1, Outcome::Left(0)));
    events
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
fn who_is_killed_holds_until_the_end_of_the_trust() {
    let mut killed = contender(1, [granted(5, 0, 10, 980)]);
    killed.was_killed = true;
    killed.has_ended_well = false;
    let next = contender(2, [granted(6, 20, 500, 1400), released(6, 600)]);
    let told = read(&[killed, next], true);
    assert!(told.troubles.is_empty(), "{:?}", told.troubles);
    let kinds = kinds(&told);
    assert!(kinds.contains(&Kind::Exclusion), "{kinds:?}");
}

#[test]
fn a_lock_that_is_lost_before_its_time_is_told_of_where_that_may_not_be() {
    let lost = || {
        vec![Event::Lost {
            client: 0,
            at: at(300),
        }]
    };
    let records = [contender(1, [granted(5, 0, 10, 980), lost()])];
    assert_eq!(read(&records, true).troubles.len(), 1);
    let told = read(&records, false);
    assert_eq!(spans(&told), [(5, 10, 300)]);
    assert!(told.troubles.is_empty(), "{:?}", told.troubles);
}

#[test]
fn an_answer_that_comes_late_or_never_is_told_of() {
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
