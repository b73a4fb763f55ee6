//! The tree as the house rules read it: tracked files, their text, and how findings are reported.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root")
}

/// The files that git tracks or would track, relative to the root.
pub fn files() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let listed: BTreeSet<&str> = text.lines().collect();
    listed.into_iter().filter(|path| root().join(path).is_file()).map(str::to_owned).collect()
}

/// The part of a path after its last dot.
pub fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

/// The tracked files with one of these extensions.
pub fn with_extension(extensions: &[&str]) -> Vec<String> {
    files().into_iter().filter(|path| extensions.contains(&extension(path))).collect()
}

/// The text of a file, relative to the root.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Fails with a rule and what breaks it.
pub fn none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// A number that may only fall: fails if `found` is greater than `stored`, and asks for the new number if it is smaller.
pub fn ratchet(stored: usize, found: usize, rule: &str, details: &[String]) {
    assert!(found <= stored, "{rule}: {found}, and {stored} before:\n  {}", details.join("\n  "));
    assert!(found == stored, "{rule}: {found} now; lower the stored {stored}, so that it stays there");
}
