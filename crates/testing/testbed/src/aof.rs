//! Reading the commands in a server's append-only files.

use super::probe::poll;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long files may be missing.
const PATIENCE: Duration = Duration::from_secs(2);

/// A command with its arguments.
pub type Command = Vec<Vec<u8>>;

/// All commands in the append-only files of this folder, in the order in which a server replays
/// them. A base in RDB form has none and is passed over; so are the files of a finished rewrite.
///
/// # Panics
/// When there is no manifest, or a file is not a sequence of commands.
pub fn read(folder: &Path) -> Vec<Command> {
    // A rewrite that ends in between takes files of the old manifest away.
    poll(PATIENCE, || try_read(folder)).expect("the files that the manifest names")
}

fn try_read(folder: &Path) -> Option<Vec<Command>> {
    let manifest = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.expect("a folder entry").path())
        .find(|path| path.extension().is_some_and(|e| e == "manifest"))
        .expect("a manifest");
    let text = fs::read_to_string(&manifest).ok()?;
    let files: Option<Vec<_>> = text
        .lines()
        .filter_map(file_to_replay)
        .map(|name| fs::read(folder.join(name)).ok())
        .collect();
    Some(files?.iter().flat_map(|file| parse(file)).collect())
}

/// The file named by a manifest line `file <name> seq <number> type <b|h|i>`, unless it is history.
/// The lines are in the order of replay.
fn file_to_replay(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let mut value_of = |key: &str| words.find(|w| *w == key).and_then(|_| words.next());
    let name = value_of("file")?;
    (value_of("type")? != "h").then_some(name)
}

/// The commands in one file's bytes. A last command that was cut off, as by a crash, is left out.
pub fn parse(file: &[u8]) -> Vec<Command> {
    if file.starts_with(b"REDIS") || file.starts_with(b"VALKEY") {
        return Vec::new();
    }
    let mut rest = file;
    let mut commands = Vec::new();
    while !rest.is_empty() {
        // Annotations: `#TS:<seconds>`.
        if rest[0] == b'#' {
            if line(&mut rest).is_none() {
                break;
            }
            continue;
        }
        match command(&mut rest) {
            Some(command) => commands.push(command),
            None => break,
        }
    }
    commands
}

/// Takes one command off the front; `None` when it is not all there.
fn command(rest: &mut &[u8]) -> Option<Command> {
    let count = header(rest, b'*')?;
    (0..count).map(|_| argument(rest)).collect()
}

fn argument(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let len = header(rest, b'$')?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after.strip_prefix(b"\r\n")?;
    Some(bytes.to_vec())
}

/// Takes a line such as `*3` or `$5` off the front.
fn header(rest: &mut &[u8], mark: u8) -> Option<usize> {
    let line = line(rest)?;
    let number = line
        .strip_prefix(&[mark])
        .and_then(|n| str::from_utf8(n).ok()?.parse().ok());
    Some(number.unwrap_or_else(|| panic!("not a {:?} line: {line:?}", char::from(mark))))
}

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let (line, after) = rest.split_at(end);
    *rest = &after[2..];
    Some(line)
}
