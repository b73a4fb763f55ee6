//! Words: constructions that made this project hard to read do not come back. CONTRIBUTING.md has the glossary.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot read the tree has failed")]

mod common;

use common::{extension, none, read, with_extension};

/// Phrases with a plain counterpart, and that.
const PHRASES: &[(&str, &str)] = &[
    ("only running tells", "unbacked, or data-dependent"),
    ("told late", "unbacked"),
    ("but for the ", "except the"),
    ("but for what ", "except what"),
    ("but for a ", "except a"),
    ("of whom ", "two sentences"),
    (" as a rule,", "usually"),
    (" as a rule.", "usually"),
];

/// Words that start an indirect question, which documentation does not begin with.
const QUESTIONS: &[&str] = &["Whether ", "What ", "How ", "Which ", "Who "];

/// Source files and documents, except those that are generated and this one, which spells the phrases out.
fn texts() -> Vec<(String, String)> {
    let paths = with_extension(&["rs", "py", "pyi", "td", "h", "cpp", "md", "toml", "mlir"]).into_iter();
    let paths = paths.filter(|path| {
        !path.ends_with("tidy/tests/words.rs")
            && !path.contains("/tests/corpus/")
            && path != "CONTRIBUTING.md"
            && path != "LICENSE-THIRD-PARTY.md"
    });
    paths.map(|path| (path.clone(), read(&path))).collect()
}

#[test]
fn phrases_do_not_come_back() {
    let mut found = Vec::new();
    for (path, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            for (phrase, plain) in PHRASES.iter().filter(|(phrase, _)| line.contains(phrase)) {
                found.push(format!("{path}:{}: “{phrase}” is “{plain}”", number + 1));
            }
        }
    }
    none(&found, "write these as CONTRIBUTING.md says");
}

/// The text of a line if it begins a documentation comment or a docstring.
fn documentation<'a>(path: &str, before: &str, line: &'a str) -> Option<&'a str> {
    let (before, line) = (before.trim_start(), line.trim_start());
    let markers: &[&str] = match extension(path) {
        "rs" => &["///", "//!"],
        "py" | "pyi" => &["\"\"\""],
        _ => &[],
    };
    let marker = markers.iter().find(|marker| line.starts_with(**marker) && !before.starts_with(**marker))?;
    Some(line[marker.len()..].trim_start())
}

#[test]
fn documentation_does_not_begin_with_a_question() {
    let (mut found, mut seen) = (Vec::new(), 0);
    for (path, text) in texts() {
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(start) = documentation(&path, at.checked_sub(1).map_or("", |before| lines[before]), line) else { continue };
            seen += 1;
            if QUESTIONS.iter().any(|question| start.starts_with(question)) {
                found.push(format!("{path}:{}: {start}", at + 1));
            }
        }
    }
    assert!(seen > 5_000, "documentation is written in another form now");
    none(&found, "begin with a verb (“Returns true if …”) or a noun (“The sizes of …”)");
}
