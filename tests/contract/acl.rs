//! The permissions of a user: by its rights to the key, in scripts, and by category.

use crate::support::{run, user};
use testbed::{Expect, Server, cmd, started};

/// A call of each command on a key, in an order in which all of them succeed.
const CALLS: [&str; 5] = [
    "LOCK.ACQUIRE KEY a",
    "LOCK.RENEW KEY a",
    "LOCK.FENCE KEY",
    "LOCK.INFO KEY",
    "LOCK.RELEASE KEY a",
];

#[test]
fn a_reader_of_the_key_may_look_and_fence_and_no_more() {
    let (server, mut admin) = started();
    let token = run(&mut admin, "LOCK.ACQUIRE k a").grant().token;
    let mut c = user(&server, &["%R~k", "+@all"]);
    assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().token, token);
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), token);
    cmd!(c, "LOCK.FENCE", "k", token).okay();
    cmd!(c, "LOCK.FENCE", "k", token + 1).refused("FENCED");
    for call in ["LOCK.ACQUIRE k a", "LOCK.RENEW k a", "LOCK.RELEASE k a"] {
        run(&mut c, call).refused("NOPERM");
    }
    assert_eq!(run(&mut admin, "LOCK.INFO k").lock_info().holds, 1);
}

#[test]
fn a_writer_of_the_key_who_may_not_read_it_can_do_nothing() {
    let server = Server::start();
    let mut c = user(&server, &["%W~k", "+@all"]);
    for call in CALLS {
        run(&mut c, &call.replace("KEY", "k")).refused("NOPERM");
    }
}

#[test]
fn a_script_checks_the_rights_of_its_caller() {
    let (server, mut admin) = started();
    run(&mut admin, "LOCK.ACQUIRE k a").grant();
    run(&mut admin, "LOCK.ACQUIRE other a").grant();
    let mut c = user(&server, &["~k", "+eval", "+lock.info"]);
    let call = "return redis.call(ARGV[1], ARGV[2], ARGV[3])";
    let info = "return redis.call('LOCK.INFO', ARGV[1])";
    cmd!(c, "EVAL", info, 0, "k").lock_info();
    assert!(cmd!(c, "EVAL", info, 0, "other").is_err());
    assert!(cmd!(c, "EVAL", call, 0, "LOCK.RELEASE", "k", "a").is_err());
    assert_eq!(run(&mut admin, "LOCK.INFO k").lock_info().holds, 1);
}

#[test]
fn the_category_lock_holds_the_modules_commands_where_the_server_offers_it() {
    let (server, mut c) = started();
    if !Server::version().has_module_categories() {
        cmd!(c, "ACL", "CAT", "lock").refused("ERR");
        return;
    }
    let listed = cmd!(c, "ACL", "CAT", "lock").items();
    let listed: Vec<_> = listed.into_iter().map(Expect::text).collect();
    let mut user = user(&server, &["~*", "+@lock"]);
    for call in CALLS {
        let name = call.split(' ').next().expect("a name").to_lowercase();
        assert!(listed.contains(&name), "{name} in {listed:?}");
        run(&mut user, &call.replace("KEY", "k")).value();
    }
    run(&mut user, "SET k v").refused("NOPERM");
}

#[test]
fn the_servers_own_categories_hold_the_commands_where_the_server_offers_it() {
    testbed::needs!(Server::version().has_module_categories());
    let server = Server::start();
    let mut writer = user(&server, &["~*", "+@write"]);
    for call in CALLS {
        let reply = run(&mut writer, &call.replace("KEY", "k"));
        let refused = reply.is_err_and(|refusal| refusal.code() == "NOPERM");
        let looks = call.starts_with("LOCK.INFO");
        assert_eq!(refused, looks, "{call} with +@write");
    }
    let mut reader = user(&server, &["~*", "+@read"]);
    run(&mut reader, "LOCK.INFO k").nil();
    run(&mut reader, "LOCK.FENCE k").refused("NOPERM");
    let mut no_waiting = user(&server, &["~*", "+@all", "-@blocking"]);
    run(&mut no_waiting, "LOCK.ACQUIRE k a").refused("NOPERM");
}
