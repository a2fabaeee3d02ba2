//! Parsing of the servers' replies.

use crate::facts::{Fields, Module};
use redis::Value;

/// Text of any kind of string; empty for anything else.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

/// The elements of an array; empty for anything else.
pub(crate) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

/// The names and values of a flat array, as of `CONFIG GET`.
pub(crate) fn pairs(value: &Value) -> Fields {
    let (flat, _) = items(value).as_chunks::<2>();
    flat.iter()
        .map(|[name, value]| (text(name), text(value)))
        .collect()
}

/// The lines `name:value` of `INFO` and its like.
pub(crate) fn lines(text: &str) -> Fields {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields
        .map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()))
        .collect()
}

/// The modules of `INFO modules`: several lines of one name.
pub(crate) fn modules(text: &str) -> Vec<Module> {
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("module:name="));
    let module = |line: &str| {
        let (name, rest) = line.split_once(',').unwrap_or((line, ""));
        let version = rest.split(',').find_map(|part| part.strip_prefix("ver="));
        Module {
            name: name.to_owned(),
            version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
            path: None,
        }
    };
    lines.map(module).collect()
}

/// Host and port of each node in `CLUSTER NODES` that is thought to be up; and the addresses of the others.
pub(crate) fn cluster_nodes(text: &str) -> (Vec<(String, u16)>, Vec<String>) {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let address = fields
            .nth(1)
            .and_then(|field| field.split(['@', ',']).next());
        let flags = fields.next().unwrap_or_default();
        let Some(address) = address else { continue };
        let place = address.rsplit_once(':');
        let place = place.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
        let mut flags = flags.split(',');
        let is_down = flags.any(|flag| ["fail", "fail?", "noaddr", "handshake"].contains(&flag));
        match place {
            Some(place) if !is_down => up.push(place),
            _ => down.push(address.to_owned()),
        }
    }
    (up, down)
}

#[cfg(test)]
mod tests {
    use super::{cluster_nodes, lines, modules};

    #[test]
    fn the_modules_of_info_are_told_apart() {
        let info = "# Modules\r\nmodule:name=lua,ver=1,api=1,filters=0\r\n\
                    module:name=lock,ver=200,api=1,options=[handle-io-errors]\r\n";
        let found = modules(info);
        assert_eq!((found[0].name.as_str(), found[0].version), ("lua", 1));
        assert_eq!((found[1].name.as_str(), found[1].version), ("lock", 200));
    }

    #[test]
    fn fields_keep_colons_in_their_values() {
        let fields = lines("# Server\r\nrole:master\r\nexecutable:C:/x\r\n");
        assert_eq!(fields["executable"], "C:/x");
        assert_eq!(fields["role"], "master");
    }

    #[test]
    fn nodes_that_are_down_are_told_apart() {
        let text = "a1 10.0.0.1:7001@17001,name myself,master - 0 1 2 connected 0-5\n\
                    a2 10.0.0.2:7001@17001 slave,fail a1 0 1 2 disconnected\n\
                    a3 :7003@17003 master - 0 1 2 connected 6-7\n";
        let (up, down) = cluster_nodes(text);
        assert_eq!(up, [("10.0.0.1".to_owned(), 7001), (String::new(), 7003)]);
        assert_eq!(down, ["10.0.0.2:7001"]);
    }
}
