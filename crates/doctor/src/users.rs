//! Reads the rights of users with `ACL DRYRUN`, which runs nothing.

use crate::Access;
use crate::ask::Asker;
use crate::facts::User;
use crate::finding::Seen;
use redis_lock_tool::{Reply, command as words, items, text};

/// A command and its arguments, where `*` is the name of the lock.
pub(crate) type Right = (&'static str, &'static str);

/// The rights that every program with locks needs.
pub(crate) const NEEDED: [Right; 4] = [
    ("LOCK.ACQUIRE", "* doctor"),
    ("LOCK.RELEASE", "* doctor"),
    ("LOCK.RENEW", "* doctor"),
    ("PING", ""),
];
/// The rights of a program with a session.
pub(crate) const OPEN: Right = ("LOCK.SESSION|OPEN", "");
pub(crate) const OF_SESSIONS: [Right; 3] = [
    ("LOCK.SESSION|POLL", "1"),
    ("LOCK.SESSION|GRANTS", "1"),
    ("LOCK.SESSION|CLOSE", "1"),
];
/// The rights that some programs need in addition.
pub(crate) const OF_USE: [Right; 6] = [
    ("LOCK.FENCE", "*"),
    ("LOCK.INFO", "*"),
    ("LOCK.HOLDERS", "*"),
    ("INFO", ""),
    ("DEL", "*"),
    ("WAIT", "0 0"),
];

/// The rights that the doctor needs to read the rights of users.
const RIGHTS: &str = "+acl|users +acl|getuser +acl|dryrun";

/// The users who may acquire locks, and the users named on the command line.
pub(crate) fn examine(c: &mut Asker, access: &Access) -> Seen<Vec<User>> {
    let known = c.look("ACL USERS", RIGHTS)?;
    let known: Vec<_> = items(&known).iter().map(text).collect();
    let named = access.asked.user.iter();
    let others = known
        .iter()
        .filter(|name| !access.asked.user.contains(name));
    let mut found = Vec::new();
    for name in named.chain(others) {
        let mut user = User {
            name: name.clone(),
            named: access.asked.user.contains(name),
            exists: known.contains(name),
            ..User::default()
        };
        if user.exists {
            add_rights(c, access, &mut user)?;
        }
        let takes_locks = user.enabled && !user.denied.contains("LOCK.ACQUIRE");
        if user.named || takes_locks {
            found.push(user);
        }
    }
    Ok(found)
}

/// Adds the rights of a user.
fn add_rights(c: &mut Asker, access: &Access, user: &mut User) -> Seen<()> {
    let name = &user.name;
    let told = c.look(&format!("ACL GETUSER {name}"), RIGHTS)?;
    let flags = Reply::read(&told);
    let flags = flags.as_ref().map(|fields| fields.items("flags"));
    user.enabled = flags.is_some_and(|flags| flags.iter().any(|flag| text(flag) == "on"));
    let lock = &access.asked.lock;
    let rights: Vec<_> = [&NEEDED[..], &[OPEN], &OF_SESSIONS, &OF_USE].concat();
    let questions = rights.iter().map(|(command, more)| {
        let mut dry = words(&format!("ACL DRYRUN {name}"));
        let more = more.split(' ').filter(|word| !word.is_empty());
        dry.arg(command.split('|').collect::<Vec<_>>());
        dry.arg(
            more.map(|word| if word == "*" { lock } else { word })
                .collect::<Vec<_>>(),
        );
        dry
    });
    let answers = c.with(|link| link.ask_all(questions))?;
    for ((command, _), answer) in rights.into_iter().zip(answers) {
        // Another check reports a command that this server does not have (because it is renamed, or without the
        // module).
        if answer.as_ref().is_err_and(|why| why.contains("not found")) {
            continue;
        }
        let said = text(&c.allowed(answer, "ACL", RIGHTS)?);
        if said.contains("to run the") {
            user.denied.insert(command.to_owned());
        } else if said != "OK" {
            user.key_denied.get_or_insert_with(|| lock.clone());
        }
    }
    Ok(())
}
