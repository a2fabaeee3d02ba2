//! The printed report.

use crate::plan::{Expected, Planned, Size};
use crate::search::Outcome;
use crate::setting::{Leases, Memory, Network, Passed};

/// The result of a search, in words; an error if it is not the expected one.
pub(crate) fn verdict(planned: &Planned, outcome: &Outcome) -> Result<String, String> {
    let broken: Vec<_> = outcome.broken.iter().map(|(rule, _)| *rule).collect();
    match planned.expected {
        Expected::Breaks(rule) if broken.contains(&rule) => Ok(format!("broken: {rule}")),
        Expected::Breaks(rule) => Err(format!("NOT BROKEN, and should be: {rule}")),
        _ if !broken.is_empty() => Err(format!("BROKEN: {}", broken.join("; "))),
        _ if !outcome.completed && planned.size == Size::Long => {
            Ok(String::from("holds as far as it went"))
        }
        _ if !outcome.completed => Err(String::from("NOT COMPLETED")),
        _ if !outcome.not_shown.is_empty() => {
            Err(format!("NEVER SEEN: {}", outcome.not_shown.join("; ")))
        }
        _ => Ok(String::from("holds")),
    }
}

pub(crate) fn heading() {
    println!(
        "{:<46} {:>7} {:>10} {:>11} {:>5} {:>9} {:>7}  verdict",
        "search", "size", "states", "steps", "depth", "searched", "seconds"
    );
}

pub(crate) fn row(planned: &Planned, outcome: &Outcome, verdict: &Result<String, String>) {
    let setting = &planned.setting;
    let size = [setting.servers, setting.clients, setting.attempts];
    let size = size.map(|number| number.to_string()).join("x");
    let searched = match (planned.expected, outcome.completed) {
        (Expected::Breaks(_), _) => "to there",
        (_, true) => "completed",
        (_, false) => "in part",
    };
    let (Ok(verdict) | Err(verdict)) = verdict;
    println!(
        "{:<46} {:>7} {:>10} {:>11} {:>5} {:>9} {:>7.1}  {verdict}",
        planned.name,
        size,
        outcome.states,
        outcome.steps,
        outcome.depth,
        searched,
        outcome.took.as_secs_f64(),
    );
}

/// The settings and costs of each search, and the steps to its findings.
pub(crate) fn details(searches: &[(&Planned, Outcome)]) {
    println!("\nsize: servers x clients x attempts of each\n");
    for (planned, outcome) in searches {
        println!("{}: {}", planned.name, allowed(planned));
        if planned.setting.network == Network::Unreliable {
            println!("    {}", outcome.faults);
        }
        if let Expected::HoldsBecause(why) = planned.expected {
            println!("    no counter-example, because {why}");
        }
        for (rule, steps) in &outcome.broken {
            tell(&format!("breaks \"{rule}\""), steps);
        }
        for (example, steps) in &outcome.shown {
            // The plainest example is not worth its lines.
            if *example != crate::model::example::LOCKED {
                tell(&format!("shows \"{example}\""), steps);
            }
        }
        println!();
    }
}

fn tell(what: &str, steps: &[String]) {
    println!("    {what}:");
    for (number, step) in steps.iter().enumerate() {
        println!("    {:>4}. {step}", number + 1);
    }
}

fn allowed(planned: &Planned) -> String {
    let setting = &planned.setting;
    if setting.network == Network::Reliable {
        return String::from("each message arrives once, in any order");
    }
    let leases = match setting.leases {
        Leases::AnyMoment => "leases end at any moment",
        Leases::AfterTrust => "leases end after the holder's trust",
    };
    let memory = match setting.memory {
        Memory::Kept => "memory is kept",
        Memory::Lost {
            stays_away: true, ..
        } => "memory is lost at any moment, whatever the time then, and the server stays away",
        Memory::Lost { passed, .. } => match passed {
            Passed::Raised => "memory is lost at any moment, the time has passed what was raised",
            Passed::Granted => "memory is lost at any moment, the time has passed what was granted",
            Passed::Nothing => "memory is lost at any moment, whatever the time then",
        },
    };
    let messages = match setting.unheard {
        None => String::from("every message arrives at any moment, any number of times, or never"),
        Some(0) => String::from("messages that change nothing for the worse are left out"),
        Some(most) => format!("of messages that change nothing for the worse, {most} are taken"),
    };
    format!("{leases}; {memory}; {messages}")
}
