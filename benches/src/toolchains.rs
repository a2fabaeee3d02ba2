//! Builds the programs in other languages, if these are installed.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use testbed::module::root;

use crate::facts::output;
use crate::target::target_folder;

/// The program of a language.
pub(crate) struct Language {
    /// The versions of the language and of the libraries.
    pub(crate) versions: String,
    program: PathBuf,
    /// The argument that lets this program be one of these.
    role: Option<&'static str>,
}

impl Language {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.role);
        command
    }

    /// This program, in another role.
    pub(crate) fn own(role: &'static str) -> Result<Self, String> {
        Ok(Self {
            versions: output("rustc", &["--version"]),
            program: env::current_exe().map_err(|error| error.to_string())?,
            role: Some(role),
        })
    }
}

/// Builds the program of a language; the error says why it is left out.
pub(crate) fn build(name: &str) -> Result<Language, String> {
    eprintln!("building the contenders in {name}");
    let folder = target_folder().join(name);
    let built = Command::new(root().join("benches/build.sh"))
        .arg(name)
        .arg(&folder)
        .output()
        .map_err(|error| format!("build.sh: {error}"))?;
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    if !built.status.success() {
        let why = text(&built.stderr);
        eprintln!("{why}");
        return Err(why.lines().last().unwrap_or("it failed").to_owned());
    }
    Ok(Language {
        versions: text(&built.stdout),
        program: folder.join("contenders"),
        role: None,
    })
}
