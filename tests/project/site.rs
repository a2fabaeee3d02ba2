//! The check of the links of the site, which `scripts/site.sh` runs.

use super::told;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use testbed::module::root;

/// A folder with these files.
fn files(texts: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in texts {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    folder
}

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
    let folder = files(&[
        ("list", "a.html\nb/index.html\nc.svg\n"),
        (
            "a.html",
            &page(
                "<a href=\"b/#top\">b</a><img src=\"c.svg\"><a\nhref=\"#top\"><a href=\"https://x.example\">",
            ),
        ),
        ("b/index.html", &page("<a href=\"../a.html#top\">a</a>")),
    ]);
    assert_eq!(
        check(folder.path()),
        (true, "4 links, 0 broken\n".to_owned())
    );
    let broken = page("<a href=\"../a.html#bottom\">a</a><a href=\"../d.html\">d</a>");
    fs::write(folder.path().join("b/index.html"), broken).expect("a file");
    let (passed, said) = check(folder.path());
    assert!(
        !passed && said.contains("b/index.html: ../a.html#bottom"),
        "{said}"
    );
    assert!(said.contains("b/index.html: ../d.html"), "{said}");
}
