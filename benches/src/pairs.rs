//! Lock and unlock without contention: the cost for the server of each way of locking.

use crate::part::Limit::{AtLeast, AtMost};
use crate::part::{Goal, Limit, Panel, Part};
use crate::scale::Scale;
use crate::servers::{Batch, Program, Setting, started};
use crate::stats::interleave_slices;
use crate::table::Table;
use crate::ways::Way;

/// Pairs of a way before the next way runs: about a millisecond.
const BATCH: usize = 500;
const LONE_BATCH: usize = 50;

const COLUMNS: &[&str] = &["ns a pair", "of SET + DEL"];

/// Of a way to another one on servers of this line, pipelined.
type Wanted = (&'static str, Limit, &'static str, Setting, [Way; 2]);

#[rustfmt::skip]
const GOALS: [Wanted; 5] = [
    ("pair relative to SET + DEL, Redis 7.0", AtMost(1.15), "Redis 7.0", Setting::Plain, [Way::Module, Way::SetDel]),
    ("pair relative to SET + DEL, Redis 7.0 with AOF", AtMost(1.3), "Redis 7.0", Setting::AppendOnly, [Way::Module, Way::SetDel]),
    ("pair relative to SET + DELIFEQ, Valkey 9.1", AtMost(1.0), "Valkey 9.1", Setting::Plain, [Way::Module, Way::SetDelifeq]),
    ("SET + EVALSHA relative to our pair, Redis 7.0", AtLeast(1.8), "Redis 7.0", Setting::Plain, [Way::SetScript, Way::Module]),
    ("hash lock in Lua relative to our pair, Redis 7.0", AtLeast(4.0), "Redis 7.0", Setting::Plain, [Way::HashScripts, Way::Module]),
];

/// Every way on every server, with and without AOF and a replica.
pub(crate) fn measure(programs: &[Program], scale: Scale) -> Part {
    let settings = |program| Setting::ALL.map(|setting| (program, setting));
    let runs: Vec<(&Program, Setting)> = programs.iter().flat_map(settings).collect();
    let tables: Vec<[Table; 2]> = runs
        .iter()
        .map(|(program, setting)| both(program, *setting, scale))
        .collect();
    let goal = |(what, limit, line, setting, [way, base]): Wanted| {
        let is_it = |(program, of): &(&Program, Setting)| program.is(line) && *of == setting;
        let found = runs.iter().position(is_it);
        let found = found.and_then(|run| tables[run][0].ratio(way as usize, 0, base as usize));
        Goal::new(what, limit, found)
    };
    let panel = |((program, setting), [pipelined, _]): (&(&Program, Setting), &[Table; 2])| {
        let with = match setting {
            Setting::Plain => "",
            Setting::AppendOnly => " with AOF",
            Setting::Replica => return None,
        };
        let name = &program.version;
        let title = format!("Server CPU of an uncontended pair, {name}{with}; this module = 1");
        let base = Some(Way::Module as usize);
        let mut bars = pipelined.bars(0, base, |name| name.starts_with("LOCK."));
        bars.retain(|bar| !bar.ours || bar.name == Way::Module.name());
        Some(Panel { title, bars })
    };
    Part {
        goals: GOALS.map(goal).into(),
        panels: runs.iter().zip(&tables).filter_map(panel).collect(),
        tables: tables.into_iter().flatten().collect(),
        ..Part::default()
    }
}

/// Pipelined, and one at a time.
fn both(program: &Program, setting: Setting, scale: Scale) -> [Table; 2] {
    let server = started(setting.of(program.builder()));
    let _replica = setting.replica_of(&server, program);
    let mut connection = server.connection();
    let able = Way::all().map(|way| way.prepare(&mut connection));
    let table = |manner, is_pipelined, size: usize, pairs: usize| {
        let ways = Way::all().into_iter().zip(&able);
        let mut batches: Vec<_> = ways
            .clone()
            .filter(|(_, able)| able.is_ok())
            .map(|(way, _)| {
                let pairs = (0..size).flat_map(|number| way.pair(&format!("lock:{number}")));
                Batch::new(&server, pairs)
            })
            .collect();
        let figures = interleave_slices(scale.rounds(), pairs / size, &mut batches, |batch| {
            let cost = if is_pipelined {
                batch.cost()
            } else {
                batch.lone_cost()
            };
            [cost / size as f64]
        });
        let mut figures = figures.into_iter();
        let mut table = Table::new(
            format!(
                "Uncontended lock + unlock, {manner}: {}, {}",
                program.version,
                setting.name()
            ),
            "What does a lock without contention cost the server? The figures are the server CPU of a pair, and its \
             ratio to SET + DEL in the same round. SET + DEL is cheaper, because it has no token and deletes the key \
             without checking the owner.",
            COLUMNS,
        );
        for (way, able) in ways {
            let figures = able
                .clone()
                .map(|()| figures.next().expect("those of each able way"));
            table.row(way.name(), 0, figures);
        }
        table
    };
    [
        table("pipelined", true, BATCH, scale.pipelined_pairs()),
        table("one at a time", false, LONE_BATCH, scale.of(1_000, 2_500)),
    ]
}
