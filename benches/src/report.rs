//! Everything that was measured, as pages with a plot each.

use std::fmt::Write;
use std::fs;
use std::io;

use testbed::module::root;

use crate::facts::target_folder;
use crate::part::{Goal, Limit, Part};
use crate::plot::plot;
use crate::scale::Scale;
use crate::table::{Table, cell, number};

/// A page of docs/ and its plot.
pub(crate) struct Page {
    /// Of both files, without their endings.
    pub(crate) name: &'static str,
    title: &'static str,
    notes: &'static str,
}

/// The server: what commands cost, and how that grows.
pub(crate) static BENCHMARK: Page = Page {
    name: "benchmark",
    title: "Benchmark",
    notes: "\
- Clients are compared in [contention.md](contention.md).
- The hash lock in Lua does what the re-entrant locks of client libraries do on the server: it uses a hash with a \
count for the owner, an expiry, and a message when the lock becomes free.
- SET + DEL is unsafe, because a slow holder deletes the lock of the next one.
- [Growth](growth.md) shows what the figures mean for a cluster.
",
};

/// The packages of clients/, as a user runs them, and those of others.
pub(crate) static CONTENTION: Page = Page {
    name: "contention",
    title: "Contention",
    notes: "\
- The contenders of a row are threads (Go: goroutines; Rust, Node and asyncio: tasks) of one process, unless the \
title names more processes. Until their turn is over, they acquire a lock, do nothing (or what the title says), and \
release it. Every lease is 30 s.
- Each row has a server of its own. The rows of a language are started together, and take short turns, one directly \
after the other, in a different order each time. So a slow phase of the machine affects all of them. Compare only \
rows of one language. Figures are medians of the turns, with the quartiles in brackets. \"Of ours\" is the ratio to \
this project's client of the same language in the adjacent turn.
- A hand-off is the time from when a release is sent until a client has received the next grant. Least/most is the \
lowest number of grants of a contender in all turns, divided by the highest: 1 is fair, 0 means that one contender \
got none.
- \"This project's client\" is the package in clients/. All contenders of a process share one client with one \
session: the server renews its locks, and its calls queue without connections. \"Its commands alone\" are \
LOCK.ACQUIRE with BLOCK and LOCK.RELEASE, without a session. Here each contender keeps a connection for its blocked \
calls, and for BLPOP. Otherwise the options of the library are the same in all rows of a language. Redisson's \
threads share the connections of its client, and one subscription notifies all of them that a lock is free.
- The other locks have their default settings, with three exceptions. Redisson is given a lease, so that no timer \
renews it. It may have 500 subscriptions instead of 250, because its fair locks stop working beyond that. redsync \
and redlock never give up. The locks of redis-py, redsync and redlock retry after a pause, in no particular order.
- The floor, which is RPUSH and BLPOP of an element, has no owner and no lease. It is not a lock, but the lowest \
possible cost of a hand-off.
",
};

impl Page {
    /// Writes both files, and names them.
    pub(crate) fn write(&self, scale: Scale, part: &Part, facts: &[String]) -> io::Result<String> {
        let folder = scale.of(target_folder(), root().join("docs"));
        let page = folder.join(format!("{}.md", self.name));
        let picture = page.with_extension("svg");
        let form = scale.of("make bench", "make bench-full");
        fs::write(&page, self.text(part, facts, form))?;
        fs::write(&picture, plot(&part.panels, &facts[..2].join(", ")))?;
        Ok(format!("{}, {}", page.display(), picture.display()))
    }

    fn text(&self, part: &Part, facts: &[String], form: &str) -> String {
        let Self { name, title, notes } = self;
        let mut text = format!(
            "# {title}\n\n\
             `{form}` wrote this page. In each round the contestants of a table take turns. The first round does not \
             count. A figure is the median of the rounds, with the minimum and maximum in brackets, or for contests \
             the quartiles. Server CPU is the CPU time of the server's main thread, as the kernel accounts for it. A \
             ratio is computed within each round.\n\n\
             ![The ratios as bars]({name}.svg)\n\n## The machine\n\n"
        );
        for fact in facts.iter().chain(&part.facts) {
            let _ = writeln!(text, "- {fact}");
        }
        let _ = write!(text, "\n## How to read it\n\n{notes}");
        text.push_str(
            "\n## Goals\n\n| ratio, or figure | goal | here | |\n| --- | --- | --- | --- |\n",
        );
        for goal in &part.goals {
            let [limit, found, verdict] = columns(goal);
            let _ = writeln!(text, "| {} | {limit} | {found} | {verdict} |", goal.what);
        }
        text.push_str("\n## Figures\n\n");
        let tables: Vec<String> = part.tables.iter().map(Table::markdown).collect();
        text.push_str(&tables.join("\n"));
        text
    }
}

/// The goals for a terminal.
pub(crate) fn goals(goals: &[Goal]) -> String {
    let mut text = String::from("Goals of this run, ratios where no unit is named\n");
    for goal in goals {
        let [limit, found, verdict] = columns(goal);
        let _ = writeln!(text, "  {:52} {limit:14} {found:24} {verdict}", goal.what);
    }
    text
}

fn columns(goal: &Goal) -> [String; 3] {
    let limit = match goal.limit {
        Limit::AtMost(limit) => format!("at most {}", number(limit)),
        Limit::AtLeast(limit) => format!("at least {}", number(limit)),
    };
    let verdict = match goal.is_met() {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "not measured",
    };
    [limit, cell(goal.found), verdict.to_owned()]
}
