//! Builds the programs in other languages, if these are installed.

use std::path::PathBuf;
use std::process::Command;

use testbed::module::root;

use crate::target::target_folder;

/// The program of a language.
pub(crate) struct Language {
    pub(crate) name: &'static str,
    /// The versions of the language and of the libraries.
    pub(crate) versions: String,
    program: PathBuf,
}

impl Language {
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.program)
    }
}

/// Builds the program of a language; the error says why it is left out.
pub(crate) fn build(name: &'static str) -> Result<Language, String> {
    eprintln!("building the contenders in {name}");
    let folder = target_folder().join(name);
    let output = Command::new(root().join("benches/build.sh"))
        .arg(name)
        .arg(&folder)
        .output()
        .map_err(|error| format!("build.sh: {error}"))?;
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        let why = text(&output.stderr);
        eprintln!("{why}");
        return Err(why.lines().last().unwrap_or("it failed").to_owned());
    }
    Ok(Language {
        name,
        versions: text(&output.stdout),
        program: folder.join("contenders"),
    })
}
