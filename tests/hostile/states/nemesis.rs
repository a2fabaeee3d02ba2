//! The nemesis of the walk: what an administrator does, full memory, missing replicas.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redis::Cmd;
use testbed::line;

/// Settings that change, each with a harmful value and the usual one.
const CHANGES: [(&str, &str, &str); 4] = [
    ("lock.max-waiters", "2", "10000"),
    ("lock.default-lease-ms", "5", "30000"),
    ("maxmemory", "1mb", "0"),
    ("min-replicas-to-write", "9", "0"),
];

/// A command that disturbs those who use this key; none when somebody is to let go of it instead.
pub(crate) fn fault(random: &mut StdRng, key: &str) -> Option<String> {
    let (name, harmful, usual) = *CHANGES.choose(random).expect("settings");
    let value = if random.random_ratio(1, 3) {
        harmful
    } else {
        usual
    };
    let short = random.random_range(1..20);
    Some(match random.random_range(0..16) {
        0 => format!("DEL {key}"),
        1 => format!("UNLINK {key}"),
        2 | 3 => format!("PEXPIRE {key} {short}"),
        4 => format!("SET {key} text PX {short}"),
        5 => format!("CLIENT PAUSE {short} WRITE"),
        6 => format!("DEBUG SLEEP 0.0{short:02}"),
        7 => "ACL SETUSER able resetkeys".to_owned(),
        8 => "ACL SETUSER able ~*".to_owned(),
        9 | 10 => format!("CONFIG SET {name} {value}"),
        _ => return None,
    })
}

/// What mends all that lasts.
pub(crate) fn mend() -> Vec<Cmd> {
    let mut commands = vec![line("CLIENT UNPAUSE"), line("ACL SETUSER able ~*")];
    for (name, _, usual) in CHANGES {
        commands.push(line(&format!("CONFIG SET {name} {usual}")));
    }
    commands
}
