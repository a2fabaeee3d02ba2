//! The machine and the tools that the figures were measured with.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use testbed::module::root;

use crate::servers::Program;

/// The folder for build results and logs: `target/benchmark`, created if missing.
pub(crate) fn target_folder() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("benchmark");
    // If that fails, the first write to it reports the error.
    let _ = fs::create_dir_all(&folder);
    folder
}

/// The machine, the servers and the tools, a line each.
pub(crate) fn facts(programs: &[Program]) -> Vec<String> {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu_info
        .lines()
        .find(|line| line.starts_with("model name"))
        .and_then(|line| line.split_once(": "))
        .map_or("unknown", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let servers: Vec<&str> = programs.iter().map(|p| p.version.as_str()).collect();
    vec![
        format!("date: {}", output("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
        format!("processor: {model}, {cores} cores to use"),
        format!(
            "memory: {} GiB",
            memory_kib("MemTotal:").map_or(0, |kib| kib.div_ceil(1024 * 1024))
        ),
        format!("kernel: {}", output("uname", &["-s", "-r", "-m"])),
        format!(
            "load average when it began: {}",
            first_words("/proc/loadavg", 3)
        ),
        // Without it each wake-up of an idle virtual machine costs 50 us or more.
        format!(
            "an idle core polls before it halts (guest_halt_poll_ns): {}",
            match first_words("/sys/module/haltpoll/parameters/guest_halt_poll_ns", 1) {
                none if none.is_empty() => "not a virtual machine".to_owned(),
                ns => format!("{ns} ns"),
            }
        ),
        format!("servers: {}", servers.join(", ")),
        format!("compiler: {}", output("rustc", &["--version"])),
        format!(
            "commit: {}",
            output("git", &["describe", "--always", "--dirty"])
        ),
    ]
}

/// A figure of the machine's memory, such as `MemTotal:`.
pub(crate) fn memory_kib(name: &str) -> Option<u64> {
    kib_in("/proc/meminfo", name)
}

/// The MiB of a process that are in memory.
pub(crate) fn memory_of_process(id: u32) -> f64 {
    kib_in(&format!("/proc/{id}/status"), "VmRSS:").map_or(f64::NAN, |kib| kib as f64 / 1024.0)
}

fn kib_in(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

fn first_words(path: &str, count: usize) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(count).collect();
    words.join(" ")
}

/// The output of a program, or `unknown`.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    if text.is_empty() {
        "unknown".to_owned()
    } else {
        text
    }
}
