//! Where the configuration loads the module.

use crate::facts::Node;
use crate::finding::{Judged, act, error, ok_or, or_ok, shell, warning};

pub(super) fn files(node: &Node) -> Judged {
    if node.told("config_file")?.is_none_or(str::is_empty) {
        return Ok(vec![]);
    }
    let Some(files) = &node.files else {
        let seen = "the configuration file is not on this machine, or may not be read: a loadmodule line belongs in \
                    the server's own file, not into an included one";
        let look = ["grep -r '^ *loadmodule' /etc/redis /etc/valkey /etc/redis-lock"];
        return ok_or(seen, shell(look));
    };
    let own = &files.own;
    let mut found = Vec::new();
    for (path, module) in &files.included {
        found.extend(if files.loads.contains(module) {
            error(
                format!("{own} and {path}, which it includes, both load {module}: the next start fails"),
                act(format!("delete the line \"loadmodule {module}\" from {path}")),
            )?
        } else {
            warning(
                format!("{path}, which {own} includes, loads {module}: after a CONFIG REWRITE the server does not start"),
                act(format!("move the line \"loadmodule {module}\" from {path} to {own}")),
            )?
        });
    }
    or_ok(found, "no included file loads a module")
}
