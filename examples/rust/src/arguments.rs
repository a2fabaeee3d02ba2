//! `--name value`, in any order.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Arguments that no program takes.
#[derive(Debug)]
pub(crate) struct Wrong(pub(crate) String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// What a program was started with.
pub(crate) struct Arguments {
    pub(crate) program: String,
    values: HashMap<String, String>,
}

impl Arguments {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Wrong> {
        let program = words.next().ok_or_else(|| Wrong("which program?".into()))?;
        let mut values = HashMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--");
            let name = name.ok_or_else(|| Wrong(format!("{word} is no option")))?;
            let value = words.next();
            let value = value.ok_or_else(|| Wrong(format!("{word} needs a value")))?;
            values.insert(name.to_owned(), value);
        }
        Ok(Self { program, values })
    }

    pub(crate) fn get<T: FromStr>(&self, name: &str) -> Result<T, Wrong> {
        let value = self.values.get(name);
        let value = value.ok_or_else(|| Wrong(format!("--{name} is missing")))?;
        let parsed = value.parse();
        parsed.map_err(|_| Wrong(format!("--{name} cannot be {value}")))
    }

    pub(crate) fn millis(&self, name: &str) -> Result<Duration, Wrong> {
        self.get(name).map(Duration::from_millis)
    }
}
