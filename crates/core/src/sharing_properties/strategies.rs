//! Random histories: numbers are relative to the state, so that they are often close to a limit of a rule.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::key::OWNERS;
use super::model::{Amount, Call, Event, Holder, MAX_HOLDS, MICROS, Model, TOKENS_END, Verb};

const TODAY: u64 = 1_795_000_000_000_000;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// An owner, or the n-th holder.
    Call(Who, Option<NearToken>, NearVerb),
    Event(Event),
    /// The clock moves by so many milliseconds.
    Clock(i64),
    /// The clock moves to the end of the n-th share, or of the key, plus so many milliseconds.
    End(Option<usize>, i64),
    /// A `PEXPIRE` to before or after the latest end, or to that of the n-th share.
    Cut(usize, i64),
    Leave(usize),
    Tick,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    Owner(usize),
    Holder(usize),
    /// The owner of the n-th call in line.
    InLine(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NearToken {
    /// The owner's own plus so many.
    Own(i64),
    /// That of the n-th holder.
    Of(usize),
    Seen(i64),
    Lead(i64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NearLimit {
    /// So many more than there are holders.
    Holders(i64),
    None,
    One,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum NearVerb {
    Acquire(Option<u64>, NearLimit, Option<i64>, bool),
    Release(Option<i64>),
    ReleaseAll,
    Renew(Option<u64>, Option<NearLimit>, Option<NearToken>),
    Fence,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Call(Call),
    Event(Event),
    Tick,
}

impl Step {
    /// The operation that this step is in this state; `None` when there is none.
    pub(super) fn at(&self, model: &Model) -> Option<Operation> {
        let millis = model.now / MICROS;
        let clock = |to: u64| Some(Operation::Event(Event::Clock(to.saturating_mul(MICROS))));
        let nth = |n: usize| {
            let holders = &model.holders;
            (!holders.is_empty()).then(|| holders[n % holders.len()])
        };
        match *self {
            Self::Call(who, token, verb) => Some(Operation::Call(call(model, who, token, verb))),
            Self::Event(event) => Some(Operation::Event(event)),
            Self::Clock(by) => clock(millis.saturating_add_signed(by)),
            Self::End(None, by) => clock(model.expiry?.saturating_add_signed(by)),
            Self::End(Some(n), by) => clock(nth(n)?.end?.saturating_add_signed(by)),
            Self::Cut(n, by) => {
                let at = nth(n)?.end?.saturating_add_signed(by);
                let ms = at.checked_sub(millis).filter(|ms| *ms > 0)?;
                Some(Operation::Event(Event::Pexpire(ms)))
            }
            Self::Leave(n) => {
                let in_line = model.in_line();
                (in_line > 0).then(|| Operation::Event(Event::Leave(n % in_line)))
            }
            Self::Tick => Some(Operation::Tick),
        }
    }
}

fn call(model: &Model, who: Who, token: Option<NearToken>, verb: NearVerb) -> Call {
    let holders = &model.holders;
    let nth = |n: usize| (!holders.is_empty()).then(|| holders[n % holders.len()]);
    let owner = match who {
        Who::Owner(owner) => owner,
        Who::InLine(n) => model.owner_in_line(n).unwrap_or(n % OWNERS),
        Who::Holder(n) => nth(n).map_or(n % OWNERS, |holder| holder.owner),
    };
    let own = holders.iter().find(|holder| holder.owner == owner);
    let holds = own.map_or(0, |holder| holder.holds);
    let near_holds = |by, min: u64| holds.saturating_add_signed(by).clamp(min, MAX_HOLDS);
    let near = |token: NearToken| {
        let own = own.map_or(model.seen, |holder| holder.token);
        let number = match token {
            NearToken::Own(by) => own.saturating_add_signed(by),
            NearToken::Of(n) => nth(n).map_or(1, |holder| holder.token),
            NearToken::Seen(by) => model.seen.saturating_add_signed(by),
            NearToken::Lead(by) => {
                (model.now + super::model::MAX_LEAD * MICROS).saturating_add_signed(by)
            }
        };
        number.clamp(1, TOKENS_END - 1)
    };
    let near_limit = |limit: NearLimit| match limit {
        NearLimit::Holders(by) => (holders.len() as u64).saturating_add_signed(by).max(1),
        NearLimit::None => 0,
        NearLimit::One => 1,
    };
    let mut token = token.map(near);
    let verb = match verb {
        NearVerb::Acquire(px, limit, by, block) => Verb::Acquire {
            px,
            limit: near_limit(limit),
            holds: by.map(|by| near_holds(by, 1)),
            // With TOKEN no call waits: it is refused.
            block,
        },
        NearVerb::Release(None) => Verb::Release(Amount::One),
        NearVerb::Release(Some(by)) => Verb::Release(Amount::Holds(near_holds(by, 0))),
        NearVerb::ReleaseAll => Verb::Release(Amount::All),
        NearVerb::Renew(px, limit, raise) => {
            let raise = raise.map(near);
            if let Some(raise) = raise {
                let bound = token.unwrap_or_else(|| near(NearToken::Own(0)));
                token = Some(bound.min(raise));
            }
            Verb::Renew {
                px,
                // RAISE goes without a limit.
                limit: limit.filter(|_| raise.is_none()).map(near_limit),
                raise,
            }
        }
        NearVerb::Fence => {
            token = token.or(Some(near(NearToken::Own(0))));
            Verb::Fence
        }
    };
    Call { owner, token, verb }
}

/// The state at the start: shares whose limits bear them all, or one holder, or none; and the steps.
pub(super) fn histories() -> impl Strategy<Value = (Model, Vec<Step>)> {
    let counts = prop_oneof![
        2 => Just(0_usize),
        3 => Just(1),
        4 => 2..6_usize,
        3 => 6..24_usize,
        1 => 24..OWNERS,
    ];
    let holders = counts.prop_flat_map(|count| {
        let holds = prop_oneof![6 => Just(1), 2 => 2..4_u64, 1 => MAX_HOLDS - 1..=MAX_HOLDS];
        let limit =
            prop_oneof![3 => Just(0), 2 => (0..4_u64).prop_map(move |by| count as u64 + by)];
        vec((holds, limit, leases(), 0..40_000_u64), count)
    });
    let owners = Just((0..OWNERS).collect::<Vec<_>>()).prop_shuffle();
    let seens = prop_oneof![
        8 => Just(TODAY),
        1 => Just(TODAY + 3_600_000_000),
        1 => TOKENS_END - 4..TOKENS_END,
    ];
    let starts = (holders, owners, seens).prop_map(|(holders, owners, seen)| {
        let first = TODAY - 100_000;
        let holders = holders
            .into_iter()
            .zip(owners)
            .enumerate()
            .map(|(index, ((holds, limit, lease, left), owner))| Holder {
                owner,
                token: first + 3 * index as u64,
                holds,
                limit,
                lease,
                end: Some(TODAY / MICROS + left),
            })
            .collect();
        Model::new(holders, seen, TODAY)
    });
    (starts, vec(steps(), 1..70))
}

fn leases() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 3_000..60_000_u64, 2 => Just(30_000_u64), 1 => Just(1_u64)]
}

fn limits() -> impl Strategy<Value = NearLimit> {
    prop_oneof![
        4 => Just(NearLimit::None),
        4 => (-1..=3_i64).prop_map(NearLimit::Holders),
        2 => Just(NearLimit::One),
    ]
}

fn tokens() -> impl Strategy<Value = NearToken> {
    prop_oneof![
        6 => Just(NearToken::Own(0)),
        2 => (-2..=3_i64).prop_map(NearToken::Own),
        2 => any::<usize>().prop_map(NearToken::Of),
        1 => (-1..=2_i64).prop_map(NearToken::Seen),
        2 => (-1..=1_i64).prop_map(NearToken::Lead),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let lease = || option::weighted(0.5, leases());
    let holds = prop_oneof![3 => Just(None), 2 => (-2..=2_i64).prop_map(Some)];
    let verbs = prop_oneof![
        16 => (lease(), limits(), holds, prop::bool::weighted(0.7))
            .prop_map(|(px, limit, holds, block)| NearVerb::Acquire(px, limit, holds, block)),
        4 => option::weighted(0.3, -3..=1_i64).prop_map(NearVerb::Release),
        3 => Just(NearVerb::ReleaseAll),
        6 => (lease(), option::of(limits()), option::weighted(0.3, tokens()))
            .prop_map(|(px, limit, raise)| NearVerb::Renew(px, limit, raise)),
        1 => Just(NearVerb::Fence),
    ];
    let whos = prop_oneof![
        4 => (0..6_usize).prop_map(Who::Owner),
        2 => (0..OWNERS).prop_map(Who::Owner),
        4 => any::<usize>().prop_map(Who::Holder),
        2 => any::<usize>().prop_map(Who::InLine),
    ];
    let near_end = || -1..=1_i64;
    prop_oneof![
        40 => (whos, option::weighted(0.2, tokens()), verbs)
            .prop_map(|(who, token, verb)| Step::Call(who, token, verb)),
        4 => (0..1_000_i64).prop_map(Step::Clock),
        1 => (-20_000..10_000_i64).prop_map(Step::Clock),
        2 => (any::<usize>(), near_end()).prop_map(|(n, by)| Step::End(Some(n), by)),
        1 => near_end().prop_map(|by| Step::End(None, by)),
        3 => (any::<usize>(), -500..500_i64).prop_map(|(n, by)| Step::Cut(n, by)),
        1 => (any::<usize>(), near_end()).prop_map(|(n, by)| Step::Cut(n, by)),
        1 => leases().prop_map(|ms| Step::Event(Event::Pexpire(ms))),
        2 => Just(Step::Event(Event::Persist)),
        1 => prop_oneof![
            1 => Just(Event::Del),
            2 => (1..8_usize).prop_map(Event::MaxHolders),
            1 => Just(Event::MaxHolders(1000)),
            1 => (TODAY..TODAY + 9_000_000).prop_map(Event::Seen),
        ].prop_map(Step::Event),
        2 => any::<usize>().prop_map(Step::Leave),
        3 => Just(Step::Tick),
    ]
}
