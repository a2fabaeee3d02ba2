//! The rights of users, by `ACL DRYRUN`: nothing is run.

use crate::arguments::Access;
use crate::examine::answered;
use crate::facts::{Seen, User};
use crate::finding::Fix;
use redis::Cmd;
use redis_lock_tool::{Link, command as words, items, text};

/// The rights that every program with locks needs.
pub(crate) const NEEDED: [&str; 4] = ["LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.RENEW", "PING"];
/// The rights that some programs need besides.
pub(crate) const OF_USE: [&str; 10] = [
    "LOCK.SESSION|OPEN",
    "LOCK.SESSION|POLL",
    "LOCK.SESSION|GRANTS",
    "LOCK.SESSION|CLOSE",
    "LOCK.FENCE",
    "LOCK.INFO",
    "LOCK.HOLDERS",
    "INFO",
    "DEL",
    "WAIT",
];

/// The users who take locks, and those who were asked for. The outer error is that of the connection.
pub(crate) fn examine(c: &mut Link, access: &Access, me: &str) -> Result<Seen<Vec<User>>, String> {
    let allow = Fix::Run(format!(
        "ACL SETUSER {me} +acl|users +acl|getuser +acl|dryrun"
    ));
    let known = match answered(c.ask(&words("ACL USERS"))?, "ACL USERS", &allow) {
        Ok(users) => items(&users).iter().map(text).collect::<Vec<_>>(),
        Err(unseen) => return Ok(Err(unseen)),
    };
    let named = access.users.iter();
    let others = known.iter().filter(|name| !access.users.contains(name));
    let mut found = Vec::new();
    for name in named.chain(others) {
        let named = access.users.contains(name);
        if !known.contains(name) {
            found.push(User {
                name: name.clone(),
                named,
                ..User::default()
            });
            continue;
        }
        match rights(c, access, name, named)? {
            Ok(user) => found.extend(user),
            Err(error) => return Ok(answered(Err(error), "ACL", &allow).map(|_| Vec::new())),
        }
    }
    Ok(Ok(found))
}

/// What one user may do; none for one who takes no locks and was not asked for. The inner error is a refusal.
fn rights(
    c: &mut Link,
    access: &Access,
    name: &str,
    named: bool,
) -> Result<Result<Option<User>, String>, String> {
    let told = match c.ask(Cmd::new().arg("ACL").arg("GETUSER").arg(name))? {
        Ok(told) => flags(&told),
        Err(error) => return Ok(Err(error)),
    };
    let mut user = User {
        name: name.to_owned(),
        named,
        exists: true,
        enabled: told.iter().any(|flag| flag == "on"),
        ..User::default()
    };
    let commands: Vec<_> = NEEDED.iter().chain(&OF_USE).collect();
    let questions = commands.iter().map(|command| {
        let mut dry = words(&format!("ACL DRYRUN {name}"));
        let lock = &access.lock;
        match **command {
            "LOCK.ACQUIRE" | "LOCK.RELEASE" | "LOCK.RENEW" => {
                dry.arg(command).arg(lock).arg("doctor")
            }
            "WAIT" => dry.arg(command).arg(0).arg(0),
            "LOCK.SESSION|OPEN" => dry.arg("LOCK.SESSION").arg("OPEN"),
            _ if command.starts_with("LOCK.SESSION|") => {
                dry.arg(command.split('|').collect::<Vec<_>>()).arg(1)
            }
            "PING" | "INFO" => dry.arg(command),
            _ => dry.arg(command).arg(lock),
        };
        dry
    });
    let answers = c.ask_all(questions)?;
    for (command, answer) in commands.into_iter().zip(answers) {
        let said = match answer {
            Ok(said) => text(&said),
            // A command that this server does not have (renamed, or no module) is another check's.
            Err(error) if error.contains("not found") => continue,
            Err(error) => return Ok(Err(error)),
        };
        if said.contains("to run the") {
            user.denied.insert((*command).to_owned());
        } else if said != "OK" {
            user.key_denied.get_or_insert_with(|| access.lock.clone());
        }
    }
    let takes_locks = !user.denied.contains("LOCK.ACQUIRE");
    Ok(Ok((named || (takes_locks && user.enabled)).then_some(user)))
}

/// The flags in a reply of `ACL GETUSER`.
fn flags(reply: &redis::Value) -> Vec<String> {
    let (fields, _) = items(reply).as_chunks::<2>();
    let flags = fields.iter().find(|[name, _]| text(name) == "flags");
    let flags = flags.map(|[_, flags]| items(flags)).unwrap_or_default();
    flags.iter().map(text).collect()
}
