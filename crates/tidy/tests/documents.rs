//! Documents: how large they may be, that their links lead somewhere, and words that do not come back.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot read the tree has failed")]

mod common;

use std::path::Path;

use common::{extension, none, read, root, with_extension};

/// The largest size of a document, in bytes: what a reader takes in at one sitting.
const BYTES: usize = 26_000;

/// Documents with a limit of their own, each with its reason.
const OTHER_LIMITS: &[(&str, usize, &str)] = &[
    ("ARCHITECTURE.md", 10_000, "a map: what it points to has the details"),
    ("CHANGELOG.md", 40_000, "a list, read in parts"),
    ("README.md", 6_000, "a first look: docs/ has the rest"),
    ("docs/reference/dialect/pointwise.md", 60_000, "generated from the dialect's ODS files"),
];

/// The address of this repository's files, for links that work on a package index as well.
const FILES: &str = "https://github.com/dynamlir/dynamlir/blob/main/";

/// The widest line of a document, in characters, outside of tables, code and headings of links.
const COLUMNS: usize = 160;

/// The documents that people write.
fn documents() -> Vec<String> {
    with_extension(&["md"]).into_iter().filter(|path| path != "LICENSE-THIRD-PARTY.md").collect()
}

#[test]
fn documents_are_short() {
    let mut long = Vec::new();
    for path in documents() {
        let limit = OTHER_LIMITS.iter().find(|(name, ..)| *name == path).map_or(BYTES, |(_, limit, _)| *limit);
        let bytes = read(&path).len();
        if bytes > limit {
            long.push(format!("{path}: {bytes} bytes of {limit}"));
        }
    }
    none(&long, "split these documents, or say in OTHER_LIMITS why not");
}

#[test]
fn lines_of_documents_are_readable() {
    let mut wide = Vec::new();
    for path in documents().into_iter().filter(|path| !path.starts_with("docs/reference/dialect/")) {
        let mut in_code = false;
        for (number, line) in read(&path).lines().enumerate() {
            let fence = line.trim_start().starts_with("```");
            in_code ^= fence;
            if !in_code && !fence && !line.starts_with('|') && line.chars().count() > COLUMNS {
                wide.push(format!("{path}:{}: {} characters", number + 1, line.chars().count()));
            }
        }
    }
    none(&wide, "break these lines");
}

/// The anchor that a heading gets: lower case, words joined by dashes, punctuation dropped.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of the links in a document to this repository's files.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        let after = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        let here = after.filter(|target| !target.contains("://") || target.starts_with(FILES));
        found.extend(here.filter(|target| !target.is_empty() && !target.contains(' ')));
    }
    found
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for path in documents() {
        let text = read(&path);
        for link in links(&text) {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                path.clone()
            } else if let Some(file) = file.strip_prefix(FILES) {
                file.to_owned()
            } else {
                Path::new(&path).parent().expect("a file has a folder").join(file).to_string_lossy().into_owned()
            };
            if !root().join(&target).exists() {
                broken.push(format!("{path}: {link}: no such file"));
            } else if !fragment.is_empty() && extension(&target) == "md" {
                let there = read(&target).lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == fragment);
                if !there {
                    broken.push(format!("{path}: {link}: no such heading"));
                }
            }
        }
    }
    none(&broken, "links to nowhere");
}

#[test]
fn paths_in_documents_exist() {
    // `crates/…`, `python/…` and so on in backquotes name files and folders of this tree.
    let mut missing = Vec::new();
    for path in documents().into_iter().filter(|path| path != "CHANGELOG.md") {
        let text = read(&path);
        for word in text.split('`').skip(1).step_by(2) {
            let is_path = ["crates/", "python/", "scripts/", "dialects/", "test/", "docs/"].iter().any(|folder| word.starts_with(folder));
            if is_path && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c)) && !root().join(word).exists() {
                missing.push(format!("{path}: {word}"));
            }
        }
    }
    none(&missing, "these documents name files that do not exist");
}
