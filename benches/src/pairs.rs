//! Lock and unlock without contention: the cost for the server of each way of locking.

use crate::part::{Bar, Goal, Panel, Part};
use crate::scale::Scale;
use crate::servers::{Batch, Program, Setting, settle};
use crate::stats::{Rounds, interleave_slices};
use crate::table::Table;
use crate::ways::Way;

/// Pairs of a way before the next way runs: about a millisecond.
const BATCH: usize = 500;
const LONE_BATCH: usize = 50;

/// The cost of a pair of each way that the server has.
type Costs = Vec<(Way, Rounds)>;

/// The figures of pipelined pairs.
struct Outcome<'a> {
    program: &'a Program,
    setting: Setting,
    costs: Costs,
}

/// Every way on every server, with and without AOF and a replica.
pub(crate) fn measure(programs: &[Program], scale: &Scale) -> Part {
    let mut part = Part::default();
    let mut pipelined = Vec::new();
    for program in programs {
        for setting in Setting::ALL {
            let (tables, costs) = measure_on(program, setting, scale);
            part.tables.extend(tables);
            pipelined.push(Outcome {
                program,
                setting,
                costs,
            });
        }
    }
    part.goals = goals(&pipelined);
    let shown = pipelined.iter().filter(|o| o.setting != Setting::Replica);
    part.panels = shown.filter_map(panel).collect();
    part
}

/// Pipelined, then one at a time; and the costs of the first.
fn measure_on(program: &Program, setting: Setting, scale: &Scale) -> ([Table; 2], Costs) {
    let server = program.builder_of(setting).start();
    settle(&server);
    let _replica = setting.replica_of(&server, program);
    let mut connection = server.connection();
    let ways = Way::ALL.map(|way| (way, way.prepare(&mut connection)));
    let compare = |size: usize, pairs: usize, is_pipelined: bool| -> Costs {
        let able = ways.iter().filter(|(_, state)| state.is_ok());
        let mut batches: Vec<_> = able
            .map(|(way, _)| {
                let pairs = (0..size).flat_map(|number| way.pair(&format!("lock:{number}")));
                (*way, Batch::new(&server, pairs))
            })
            .collect();
        let figures = interleave_slices(scale.rounds, pairs / size, &mut batches, |(_, batch)| {
            let cost = if is_pipelined {
                batch.cost()
            } else {
                batch.lone_cost()
            };
            [cost / size as f64]
        });
        let ways = batches.iter().map(|(way, _)| *way);
        ways.zip(figures.into_iter().map(|[cost]| cost)).collect()
    };
    let setting = match setting {
        Setting::Plain => "no AOF, no replica",
        Setting::AppendOnly => "AOF, everysec",
        Setting::Replica => "with a replica",
    };
    let table = |manner: &str, costs: &Costs| {
        let version = &program.version;
        let mut table = Table::new(
            format!("Uncontended lock + unlock, {manner}: {version}, {setting}"),
            "The server's cost of a lock that nobody else wants. Server CPU of a pair, and its ratio to SET + DEL in the \
             same round. SET + DEL is cheaper, because it has no token and deletes without asking whose the lock is.",
            &["ns a pair", "of SET + DEL"],
        );
        for (way, state) in &ways {
            if let Err(why) = state {
                table.left_out(way.name(), why);
            } else if let Some(cost) = cost(costs, *way) {
                let ratio = ratio(costs, *way, Way::SetDel);
                table.row(way.name(), vec![cost.spread(), ratio.spread()]);
            }
        }
        table
    };
    let pipelined = compare(BATCH, scale.pipelined_pairs, true);
    let lone = compare(LONE_BATCH, scale.lone_pairs, false);
    let tables = [
        table("pipelined", &pipelined),
        table("one at a time", &lone),
    ];
    (tables, pipelined)
}

fn cost(costs: &[(Way, Rounds)], way: Way) -> Option<&Rounds> {
    let found = costs.iter().find(|(of, _)| *of == way);
    found.map(|(_, cost)| cost)
}

/// The ratio of two ways; empty when one of them is left out.
fn ratio(costs: &[(Way, Rounds)], way: Way, base: Way) -> Rounds {
    match (cost(costs, way), cost(costs, base)) {
        (Some(cost), Some(base)) => cost.over(base),
        _ => Rounds::default(),
    }
}

fn goals(outcomes: &[Outcome<'_>]) -> Vec<Goal> {
    let found = |line: &str, setting, way, base| {
        let outcome = outcomes
            .iter()
            .find(|outcome| outcome.program.is(line) && outcome.setting == setting)?;
        ratio(&outcome.costs, way, base).spread()
    };
    let on_redis = |setting, way, base| found("Redis 7.0", setting, way, base);
    let (plain, aof) = (Setting::Plain, Setting::AppendOnly);
    let of_set = |setting| on_redis(setting, Way::Module, Way::SetDel);
    let of_ours = |way| on_redis(plain, way, Way::Module);
    let on_valkey = found("Valkey 9.1", plain, Way::Module, Way::SetDelifeq);
    let scripts = "SET + EVALSHA of our pair, Redis 7.0";
    let hashes = "hash lock in Lua of our pair, Redis 7.0";
    vec![
        Goal::at_most("pair of SET + DEL, Redis 7.0", 1.15, of_set(plain)),
        Goal::at_most("pair of SET + DEL, Redis 7.0 with AOF", 1.3, of_set(aof)),
        Goal::at_most("pair of SET + DELIFEQ, Valkey 9.1", 1.0, on_valkey),
        Goal::at_least(scripts, 1.8, of_ours(Way::SetScript)),
        Goal::at_least(hashes, 4.0, of_ours(Way::HashScripts)),
    ]
}

fn panel(outcome: &Outcome<'_>) -> Option<Panel> {
    let setting = match outcome.setting {
        Setting::AppendOnly => " with AOF",
        _ => "",
    };
    let bars: Vec<Bar> = outcome
        .costs
        .iter()
        .filter(|(way, _)| !way.is_ours() || *way == Way::Module)
        .filter_map(|(way, _)| {
            Some(Bar {
                name: way.name().to_owned(),
                ratio: ratio(&outcome.costs, *way, Way::Module).spread()?,
                ours: way.is_ours(),
            })
        })
        .collect();
    (!bars.is_empty()).then(|| Panel {
        title: format!(
            "Server CPU of an uncontended pair, {}{setting}; this module = 1",
            outcome.program.version
        ),
        bars,
    })
}
