//! Where the configuration loads the module.

use super::Facts;
use crate::facts::Node;
use crate::finding::{Fix, Judged, Verdict};

pub(super) fn files(_: &Facts, node: &Node) -> Judged {
    if node.told("config_file")?.is_none_or(str::is_empty) {
        return Ok(vec![]);
    }
    let Some(files) = &node.files else {
        let seen = "the configuration file is not on this machine, or may not be read: a loadmodule line belongs into the \
                    server's own file, not into an included one";
        let look =
            Fix::Shell("grep -r '^ *loadmodule' /etc/redis /etc/valkey /etc/redis-lock".to_owned());
        return Verdict::ok(seen).fix([look]).alone();
    };
    let own = &files.own;
    let found = files.included.iter().map(|(path, module)| {
        if files.loads.contains(module) {
            let seen = format!("{own} and {path}, which it includes, both load {module}: the next start fails");
            let delete = format!("delete the line \"loadmodule {module}\" from {path}");
            return Verdict::error(seen).fix([Fix::Do(delete)]);
        }
        let seen = format!("{path}, which {own} includes, loads {module}: after a CONFIG REWRITE the server does not start");
        let relocate = format!("move the line \"loadmodule {module}\" from {path} to {own}");
        Verdict::warning(seen).fix([Fix::Do(relocate)])
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        return Verdict::ok("no included file loads a module").alone();
    }
    Ok(found)
}
