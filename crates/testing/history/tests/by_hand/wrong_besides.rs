//! Wrong behaviour towards waiters, callers without a reply and registers, and in a crash.

use history::Kind::{
    Exclusion, NoOrder, QueueOrder, RegisterRefused, RegisterTookStale, RegisterWentBack,
    TokenOrder,
};
use history::Register::{Script, Sql};
use history::Written::{Refused, Taken};
use history::{Mode, Outcome};

use crate::calls::{Example, acquire, release, wrong};

pub(crate) fn examples() -> impl Iterator<Item = Example> {
    let all = [queue(), unanswered(), registers(), losses()];
    all.into_iter().flatten()
}

fn queue() -> Vec<Example> {
    let held = || acquire("cat").at(0, 1).granted(10, 1);
    let freed = || release("cat").at(40, 41).left(0);
    vec![
        wrong("a queue that is jumped by who came later", [QueueOrder])
            .calls([
                held(),
                acquire("ann").by_client(1).block().at(2, 90).granted(60, 1),
                freed(),
                acquire("bob").by_client(2).at(42, 43).granted(50, 1),
                release("bob").by_client(2).at(80, 81).left(0),
            ])
            .sees(10, &[1]),
        wrong("a queue that is served from behind", [QueueOrder])
            .calls([
                held(),
                acquire("ann").by_client(1).block().at(2, 90).granted(60, 1),
                acquire("bob").by_client(2).block().at(2, 43).granted(50, 1),
                freed(),
                release("bob").by_client(2).at(80, 81).left(0),
            ])
            .sees(10, &[1, 2]),
    ]
}

fn unanswered() -> Vec<Example> {
    let held = || acquire("ann").at(0, 1).granted(10, 1);
    let closed = || {
        let call = acquire("bob").by_client(1).block();
        call.at(2, 6).is(Outcome::GivenBack)
    };
    let freed = || release("ann").at(4, 5).left(0);
    vec![
        wrong("what a closed call took stays", [NoOrder]).calls([
            held(),
            closed(),
            freed(),
            acquire("cat").at(7, 8).nil(),
        ]),
        wrong("a closed call takes its twin's grant", [Exclusion, NoOrder]).calls([
            held(),
            closed(),
            acquire("bob").by_client(2).block().at(3, 6).granted(20, 2),
            freed(),
            acquire("cat").at(12, 13).granted(30, 1),
        ]),
        wrong("a closed call leaves its hold with its twin", [NoOrder]).calls([
            held(),
            closed(),
            acquire("bob").by_client(2).block().at(3, 6).granted(20, 2),
            freed(),
            release("bob").by_client(2).at(12, 13).left(1),
        ]),
        wrong("an unanswered acquire takes effect too late", [NoOrder]).calls([
            acquire("ann").at(0, 1).is(Outcome::Lost),
            acquire("bob").at(2, 3).granted(10, 1),
            release("bob").at(4, 5).left(0),
            acquire("bob").at(6, 7).nil(),
        ]),
    ]
}

fn registers() -> Vec<Example> {
    let one_after_the_other = [
        acquire("ann").at(0, 1).granted(10, 1),
        release("ann").at(2, 3).left(0),
        acquire("bob").at(4, 5).granted(20, 1),
    ];
    let examples = [
        wrong("a register that goes back", [RegisterWentBack])
            .writes(Sql, 20, 6, Taken)
            .writes(Sql, 10, 8, Taken),
        wrong("a script with a stale token", [RegisterTookStale, NoOrder])
            .writes(Script, 10, 6, Taken),
        wrong("a database refuses whom nobody disturbs", [RegisterRefused])
            .writes(Sql, 20, 6, Refused),
        wrong("a script refuses a sound token", [RegisterRefused, NoOrder])
            .writes(Script, 20, 6, Refused),
    ];
    let examples = examples.into_iter();
    examples
        .map(|example| example.calls(one_after_the_other.clone()))
        .collect()
}

fn losses() -> Vec<Example> {
    let grants = |ann: u64, bob: u64, token: u64| {
        [
            acquire("ann").at(ann, ann + 1).granted(10, 1),
            acquire("bob").at(bob, bob + 1).granted(token, 1),
        ]
    };
    let lossy = |name, kind| wrong(name, [kind, NoOrder]).mode(Mode::Lossy).loses(5, 9);
    vec![
        wrong("a grant is lost where none may be", [Exclusion, NoOrder])
            .calls(grants(0, 20, 20))
            .loses(5, 9),
        lossy("a grant is lost before anything may be", Exclusion).calls(grants(0, 2, 20)),
        lossy("tokens fall after a loss", TokenOrder).calls(grants(0, 20, 9)),
        wrong("a database forgets as a server does", [RegisterWentBack])
            .mode(Mode::Lossy)
            .calls(grants(0, 20, 20))
            .loses(5, 9)
            .writes(Sql, 20, 2, Taken)
            .writes(Sql, 10, 30, Taken),
        lossy("two owners long after a loss", Exclusion).calls(grants(20, 22, 20)),
    ]
}
