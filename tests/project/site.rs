//! The steps of the site that `scripts/site.sh` does itself: links, the table of contents, and their check.

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

/// What a program of `site/` makes of files in this folder, and whether it has passed.
fn awk(program: &str, words: &[&str], folder: &Path) -> (bool, String) {
    let site = root().join("site");
    let output = Command::new("awk")
        .arg("-f")
        .arg(site.join("paths.awk"))
        .arg("-f")
        .arg(site.join(program))
        .args(words)
        .current_dir(folder)
        .output()
        .expect("awk");
    (output.status.success(), told(&output))
}

#[test]
fn a_link_leads_to_a_page_of_the_site_or_to_the_repository() {
    let text = "[a](../faq.md#why), ![b](../b.svg), [c](../../src/lib.rs), [d](https://d.example) and [e](#e)\n\
                ```\n[f](../faq.md)\n```\n[g](x.md) [h](https://github.com/redis-lock/redis-lock/blob/main/docs/faq.md#h)\n";
    let folder = files(&[
        ("list", "docs/faq.md\ndocs/b.svg\ndocs/more/x.md\n"),
        ("page", text),
    ]);
    let copied = |to: &str| {
        let words =
            format!("-vpage=docs/more/x.md -vto={to} -vrepository=https://r.example list page");
        let words: Vec<_> = words.split(' ').collect();
        awk("links.awk", &words, folder.path())
    };
    let expected = |up: &str| {
        format!(
            "[a]({up}docs/faq.md#why), ![b]({up}docs/b.svg), [c](https://r.example/src/lib.rs), \
             [d](https://d.example) and [e](#e)\n```\n[f](../faq.md)\n```\n\
             [g]({up}docs/more/x.md) [h]({up}docs/faq.md#h)\n"
        )
    };
    assert_eq!(copied("docs/more/x.md"), (true, expected("../../")));
    assert_eq!(copied("index.md"), (true, expected("")));
}

#[test]
fn the_contents_are_what_the_tables_link_to() {
    let folder = files(&[
        (
            "docs/README.md",
            "# All\n\n| to begin | |\n| --- | --- |\n| [one](one.md) | |\n| [two](two/README.md), [three](three.md) | |\n\n\
             | more | |\n| --- | --- |\n| [log](../LOG.md) | |\n",
        ),
        (
            "docs/one.md",
            "# First\n\n| [a](one/a.md) | [log](../LOG.md) |\n",
        ),
        ("docs/one/a.md", "# Inner\n"),
        (
            "docs/two/README.md",
            "# Second\n\n[not in a table](../../c/README.md)\n\n| [inner](../one/a.md) |\n",
        ),
        ("docs/three.md", "# Third\n\n| [c](../c/README.md#c) |\n"),
        ("c/README.md", "# Client\n"),
        ("LOG.md", "# Changes\n"),
        ("other.md", "# Other\n"),
    ]);
    let pages = "docs/README.md LOG.md c/README.md docs/one.md docs/one/a.md docs/three.md docs/two/README.md other.md";
    let pages: Vec<_> = pages.split(' ').collect();
    let (passed, contents) = awk("summary.awk", &pages, folder.path());
    let (_, listed) = contents.split_once("\n\n").expect("parts");
    assert_eq!(
        listed,
        "# To begin\n\n- [First](docs/one.md)\n  - [Inner](docs/one/a.md)\n- [Second](docs/two/README.md)\n\
         - [Third](docs/three.md)\n  - [Client](c/README.md)\n\n# More\n\n- [Changes](LOG.md)\n"
    );
    assert!(passed);
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
    let check = || {
        awk(
            "check.awk",
            &["list", "a.html", "b/index.html"],
            folder.path(),
        )
    };
    assert_eq!(check(), (true, "4 links, 0 broken\n".to_owned()));
    let broken = page("<a href=\"../a.html#bottom\">a</a><a href=\"../d.html\">d</a>");
    fs::write(folder.path().join("b/index.html"), broken).expect("a file");
    let (passed, said) = check();
    assert!(
        !passed && said.contains("b/index.html: ../a.html#bottom"),
        "{said}"
    );
    assert!(said.contains("b/index.html: ../d.html"), "{said}");
}
