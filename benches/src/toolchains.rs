//! Builds the programs in other languages, if these are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::module::root;

use crate::facts::output;
use crate::target::target_folder;

/// The program of a language.
pub(crate) struct Language {
    pub(crate) name: &'static str,
    /// The versions of the language and of the libraries.
    pub(crate) versions: String,
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

impl Language {
    pub(crate) fn command(&self) -> Command {
        self.command_of(&self.arguments)
    }

    /// Another program of Java's, by its class.
    pub(crate) fn class(&self, name: &str) -> Command {
        let mut arguments = self.arguments.clone();
        arguments.pop();
        arguments.push(name.to_owned());
        self.command_of(&arguments)
    }

    fn command_of(&self, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .envs(self.environment.iter().cloned());
        command
    }
}

/// Builds the program of a language; the error says why it is left out.
pub(crate) fn build(name: &str) -> Result<Language, String> {
    eprintln!("building the contenders in {name}");
    match name {
        "java" => java(),
        "python" => python(),
        "node" => node(),
        _ => go(),
    }
}

fn java() -> Result<Language, String> {
    needs("javac", "--version", "no Java development kit")?;
    needs("mvn", "--version", "no Maven")?;
    let folder = target_folder().join("java");
    let mut build = Command::new("mvn");
    build
        .args(["-q", "-B"])
        .arg(format!("-Dbuilt={}", folder.display()))
        .args(["compile", "dependency:copy-dependencies"])
        .current_dir(root().join("benches/java"));
    run(build)?;
    let (classes, libraries) = (folder.join("classes"), folder.join("libraries"));
    let jars = fs::read_dir(&libraries).map_err(|error| error.to_string())?;
    let mut used: Vec<String> = jars
        .flatten()
        .map(|jar| jar.file_name().to_string_lossy().into_owned())
        .filter(|jar| jar.starts_with("jedis-") || jar.starts_with("redisson-"))
        .map(|jar| jar.trim_end_matches(".jar").to_owned())
        .collect();
    used.sort();
    Ok(Language {
        name: "java",
        versions: versions(&output("java", &["--version"]), &used),
        program: "java".into(),
        arguments: vec![
            "-cp".into(),
            format!("{}:{}/*", classes.display(), libraries.display()),
            "Main".into(),
        ],
        environment: Vec::new(),
    })
}

fn python() -> Result<Language, String> {
    let python = ["python3", "/usr/bin/python3"]
        .into_iter()
        .find(|python| succeeds(Command::new(python).args(["-m", "pip", "--version"])))
        .ok_or("no Python with pip")?;
    let source = root().join("benches/python");
    let (wanted, built) = (
        source.join("requirements.txt"),
        target_folder().join("python"),
    );
    let used = fs::read_to_string(&wanted).map_err(|error| error.to_string())?;
    let used: Vec<String> = used.lines().map(str::to_owned).collect();
    let versions = versions(&output(python, &["--version"]), &used);
    // Packages installed for one version of Python may not fit another.
    let installed = built.join("installed");
    if fs::read_to_string(&installed).ok().as_ref() != Some(&versions) {
        let _ = fs::remove_dir_all(&built);
        let mut install = Command::new(python);
        install
            .args(["-m", "pip", "install", "--quiet", "--target"])
            .arg(&built)
            .arg("-r")
            .arg(&wanted);
        run(install)?;
        fs::write(&installed, &versions).map_err(|error| error.to_string())?;
    }
    let client = root().join("clients/python/src");
    let paths = format!("{}:{}", built.display(), client.display());
    Ok(Language {
        name: "python",
        versions,
        program: python.into(),
        arguments: vec![source.join("contenders.py").display().to_string()],
        environment: vec![("PYTHONPATH", paths)],
    })
}

fn node() -> Result<Language, String> {
    needs("node", "--version", "no Node")?;
    needs("npm", "--version", "no npm")?;
    let (source, built) = (root().join("benches/node"), target_folder().join("node"));
    fs::create_dir_all(&built).map_err(|error| error.to_string())?;
    for name in ["package.json", "package-lock.json", "contenders.js"] {
        fs::copy(source.join(name), built.join(name)).map_err(|error| error.to_string())?;
    }
    let npm = |folder: &Path, words: &[&str]| {
        let mut npm = Command::new("npm");
        npm.args(words)
            .args(["--silent", "--no-audit", "--no-fund"]);
        npm.current_dir(folder);
        run(npm)
    };
    // As its users do: the client is a package, built and installed.
    let client = root().join("clients/node");
    npm(&client, &["ci"])?;
    npm(
        &client,
        &["pack", "--pack-destination", &built.display().to_string()],
    )?;
    npm(&built, &["ci"])?;
    npm(
        &built,
        &["install", "--no-save", "./redis-lock-client-0.3.0.tgz"],
    )?;
    let package = fs::read_to_string(source.join("package.json"));
    let package = package.map_err(|error| error.to_string())?;
    let used: Vec<String> = package
        .lines()
        .filter(|line| line.contains("\"ioredis\"") || line.contains("\"redlock\""))
        .map(|line| line.replace(['"', ','], "").trim().replace(": ", "@"))
        .collect();
    Ok(Language {
        name: "node",
        versions: versions(&format!("Node {}", output("node", &["--version"])), &used),
        program: "node".into(),
        arguments: vec![built.join("contenders.js").display().to_string()],
        environment: Vec::new(),
    })
}

fn go() -> Result<Language, String> {
    needs("go", "version", "no Go")?;
    let program = target_folder().join("go/contenders");
    let mut build = Command::new("go");
    build
        .args(["build", "-trimpath", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(root().join("benches/go"));
    run(build)?;
    let modules = fs::read_to_string(root().join("benches/go/go.mod"));
    let modules = modules.map_err(|error| error.to_string())?;
    let used: Vec<String> = modules
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("redis/go-redis") || line.contains("redsync"))
        .map(str::to_owned)
        .collect();
    Ok(Language {
        name: "go",
        versions: versions(&output("go", &["version"]), &used),
        program,
        arguments: Vec::new(),
        environment: Vec::new(),
    })
}

/// The first line of the language's version output, and the libraries.
fn versions(language: &str, libraries: &[String]) -> String {
    let language = language.lines().next().unwrap_or_default();
    format!("{language}: {}", libraries.join(", "))
}

fn needs(program: &str, question: &str, or: &str) -> Result<(), String> {
    if succeeds(Command::new(program).arg(question)) {
        Ok(())
    } else {
        Err(or.to_owned())
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs a build; the error is the first line of its output.
fn run(mut command: Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stderr, output.stdout].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    eprintln!("{text}");
    let first = text.lines().find(|line| !line.trim().is_empty());
    Err(format!("{name}: {}", first.unwrap_or("it failed")))
}
