//! The check of the links of the site, which `scripts/site.sh` runs.

use super::told;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use testbed::module::root;

/// The report of the check on two pages in this folder, and whether they pass.
fn check(folder: &Path) -> (bool, String) {
    let site = root().join("site");
    let output = Command::new("awk")
        .arg("-f")
        .arg(site.join("paths.awk"))
        .arg("-f")
        .arg(site.join("check.awk"))
        .args(["list", "a.html", "b/index.html"])
        .current_dir(folder)
        .output()
        .expect("awk");
    (output.status.success(), told(&output))
}

#[test]
fn a_broken_link_of_the_site_is_found() {
    let page = |links: &str| format!("<h1 id=\"top\">A</h1>\n{links}\n");
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("b")).expect("a folder");
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    put("list", "a.html\nb/index.html\nc.svg\n");
    let links = "<a href=\"b/#top\">b</a><img src=\"c.svg\"><a\nhref=\"#top\"><a href=\"https://x.example\">";
    put("a.html", &page(links));
    put("b/index.html", &page("<a href=\"../a.html#top\">a</a>"));
    let (passed, said) = check(folder.path());
    assert_eq!((passed, &*said), (true, "4 links, 0 broken\n"));
    let broken = "<a href=\"../a.html#bottom\">a</a><a href=\"../d.html\">d</a>";
    put("b/index.html", &page(broken));
    let (passed, said) = check(folder.path());
    assert!(!passed, "{said}");
    for link in ["../a.html#bottom", "../d.html"] {
        assert!(said.contains(&format!("b/index.html: {link}")), "{said}");
    }
}
