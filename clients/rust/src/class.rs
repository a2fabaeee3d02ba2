//! What each error reply means, for each kind of call. The table is that of `clients/protocol/errors.json`,
//! which all clients have.

/// What kind of call an error answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Acquire,
    Renew,
    Release,
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Lost,
    Deadlock,
    NotAlone,
    Refused,
    /// Tried again while there is time.
    Passing,
    Misuse,
}

use Class::{Deadlock, Lost, Misuse, NotAlone, Passing, Refused};

/// How a reply begins, and what it means to an acquire, a renewal, a release. The first that fits counts.
const TABLE: [(&str, [Class; 3]); 37] = [
    ("NOTHELD", [Lost; 3]),
    ("NOTOWNER", [Lost; 3]),
    ("FENCED", [Lost; 3]),
    ("WRONGTYPE", [Misuse, Lost, Lost]),
    ("NOTALONE", [NotAlone, NotAlone, Misuse]),
    ("DEADLOCK", [Deadlock, Misuse, Misuse]),
    ("MAXWAITERS", [Refused; 3]),
    ("OOM", [Refused; 3]),
    ("NOPERM", [Refused, Passing, Refused]),
    ("NOAUTH", [Refused, Passing, Refused]),
    ("WRONGPASS", [Refused, Passing, Refused]),
    ("DENIED", [Refused, Passing, Refused]),
    ("NOPROTO", [Refused, Passing, Refused]),
    ("AHEAD", [Refused; 3]),
    ("ERR unknown command", [Refused; 3]),
    ("ERR invalid password", [Refused, Passing, Refused]),
    ("ERR AUTH", [Refused, Passing, Refused]),
    (
        "ERR Protocol error: unauthenticated",
        [Refused, Passing, Refused],
    ),
    ("ERR KEEP needs the command CLIENT", [Refused; 3]),
    ("ERR no fencing token is left", [Refused; 3]),
    ("ERR a fault inside the module", [Refused, Passing, Refused]),
    ("ERR max number of clients", [Passing; 3]),
    ("ERR", [Misuse; 3]),
    ("CROSSSLOT", [Misuse; 3]),
    ("LOADING", [Passing; 3]),
    ("BUSY", [Passing; 3]),
    ("NOREPLICAS", [Passing; 3]),
    ("MISCONF", [Passing; 3]),
    ("READONLY", [Passing; 3]),
    ("MASTERDOWN", [Passing; 3]),
    ("UNBLOCKED", [Passing; 3]),
    ("CLUSTERDOWN", [Passing; 3]),
    ("TRYAGAIN", [Passing; 3]),
    ("MOVED", [Passing; 3]),
    ("ASK", [Passing; 3]),
    ("REDIRECT", [Passing; 3]),
    ("", [Misuse; 3]),
];

impl Class {
    pub(crate) fn of(text: &str, kind: Kind) -> Self {
        let row = TABLE.iter().find(|(begins, _)| text.starts_with(begins));
        row.map_or(Misuse, |(_, classes)| classes[kind as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Kind, TABLE};
    use serde_json::Value;

    #[test]
    fn the_table_is_the_one_of_all_clients() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol/errors.json");
        let file = std::fs::read_to_string(path).expect("the table of all clients");
        let file: Value = serde_json::from_str(&file).expect("JSON");
        let rows = file["errors"].as_array().expect("rows");
        assert_eq!(rows.len(), TABLE.len());
        let named = |class| match class {
            Class::Lost => "lost",
            Class::Deadlock => "deadlock",
            Class::NotAlone => "not-alone",
            Class::Refused => "refused",
            Class::Passing => "passing",
            Class::Misuse => "misuse",
        };
        for row in rows {
            let begins = row["begins"].as_str().expect("text");
            let kinds = [Kind::Acquire, Kind::Renew, Kind::Release];
            for (kind, column) in kinds.into_iter().zip(["acquire", "renew", "release"]) {
                let class = Class::of(&format!("{begins} and more"), kind);
                let class = if begins.is_empty() {
                    Class::of("", kind)
                } else {
                    class
                };
                assert_eq!(row[column], named(class), "{begins} of {column}");
            }
        }
    }
}
