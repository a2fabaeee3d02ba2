//! What happens on a server while connections walk: administrators, full memory, missing replicas.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use redis::Cmd;
use testbed::line;

/// Settings that change, each with a wild value and the one of calm weather.
const CHANGES: [(&str, &str, &str); 4] = [
    ("lock.max-waiters", "2", "10000"),
    ("lock.default-lease-ms", "5", "30000"),
    ("maxmemory", "1mb", "0"),
    ("min-replicas-to-write", "9", "0"),
];

/// A command that disturbs those who use this key; none when somebody is to let go of it instead.
pub(crate) fn change(random: &mut StdRng, key: &str) -> Option<String> {
    let (name, wild, calm) = *CHANGES.choose(random).expect("settings");
    let value = if random.random_ratio(1, 3) {
        wild
    } else {
        calm
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

/// What undoes all that lasts.
pub(crate) fn calm() -> Vec<Cmd> {
    let mut commands = vec![line("CLIENT UNPAUSE"), line("ACL SETUSER able ~*")];
    for (name, _, calm) in CHANGES {
        commands.push(line(&format!("CONFIG SET {name} {calm}")));
    }
    commands
}
