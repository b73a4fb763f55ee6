//! The capture reads existing objects through its heap: the other folders see the frame's writes only merged into what they read.
//!
//! The compiler cannot check this: the notes of writes are in `state/`, below the heap, where every folder can name them. So this checks
//! names.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot read the tree has failed")]

mod common;

use common::{none, ratchet, read, with_extension};

/// The folders that implement the merged view.
const BELOW: &[&str] = &["heap", "heap.rs", "state", "state.rs"];

/// The methods of the noted writes that say if and when there are any, but not what was written.
const ABOUT_WRITES: &[&str] = &["close", "closed", "has_changes", "is_empty", "is_recording", "later", "noted", "now"];

/// The tables of copies that represent containers, as the frame has changed them.
const COPIES: &[&str] = &["changed", "frozen_copies", "looked_into", "snapshots", "thawed"];

/// The functions that return what an object itself holds. `objects/` defines them.
const RAW: &[&str] = &["instance_dict(", "attribute_past_python("];

/// The number of calls of these outside the heap. They do not see what the frame has written to the object. May only fall.
const RAW_READS: usize = 12;

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names that follow a field of the capture's state in a line of code; "" where the field itself is used.
fn used<'a>(line: &'a str, field: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(field) {
        let (before, after) = (&line[..at], &line[at + field.len()..]);
        let is_state = before.ends_with("self.") || before.ends_with("state.");
        if is_state && !after.starts_with(is_of_name) {
            found.push(after.strip_prefix('.').and_then(|after| after.split(|c| !is_of_name(c)).next()).unwrap_or_default());
        }
    }
    found
}

/// Returns true if a line of code looks into the notes of writes, or into the copies of containers.
fn looks_into_notes(line: &str) -> bool {
    used(line, "writes").iter().any(|name| !ABOUT_WRITES.contains(name))
        || used(line, "existing").iter().any(|name| name.is_empty() || COPIES.contains(name))
}

/// Returns true if a line of code calls a function that returns what an object itself holds.
fn is_raw(line: &str) -> bool {
    RAW.iter().any(|name| line.match_indices(name).any(|(at, _)| !line[..at].ends_with(is_of_name)))
}

/// The code of a file before its tests, without comments: the number of each line, and its text with the calls that are chained to it.
fn code(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for (number, line) in text.lines().enumerate().take_while(|(_, line)| !line.starts_with("#[cfg(test)]")) {
        let line = line.trim();
        match found.last_mut() {
            _ if line.starts_with("//") => {}
            Some((_, whole)) if line.starts_with('.') => whole.push_str(line),
            _ => found.push((number + 1, line.to_owned())),
        }
    }
    found
}

/// The lines of the capture outside its heap for which this is true.
fn outside_the_heap(wanted: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for path in with_extension(&["rs"]) {
        let Some(inner) = path.strip_prefix("crates/capture/src/") else { continue };
        let folder = inner.split('/').next().unwrap_or_default();
        if BELOW.contains(&folder) {
            continue;
        }
        let text = read(&path);
        let lines = code(&text).into_iter().filter(|(_, line)| wanted(folder, line));
        found.extend(lines.map(|(number, line)| format!("{path}:{number}: {line}")));
    }
    found
}

#[test]
fn only_the_heap_looks_into_the_notes_of_writes() {
    let found = outside_the_heap(|_, line| looks_into_notes(line));
    none(&found, "ask the heap (crates/capture/src/heap), which merges the noted writes into what objects hold");
    let some = outside_the_heap(|_, line| line.contains("self.writes.now()"));
    assert!(!some.is_empty(), "the notes of writes have another name now");
}

#[test]
fn few_reads_go_past_the_heap() {
    let found = outside_the_heap(|folder, line| folder != "objects" && folder != "objects.rs" && is_raw(line));
    ratchet(RAW_READS, found.len(), "reads of what an object itself holds, which do not see the frame's writes to it", &found);
}

#[test]
fn the_rule_knows_a_look_from_a_question() {
    for line in [
        "let found = self.writes.find(storage, name, look);",
        "self.state.writes.changes(address)",
        "let notes = &self.writes;",
        "for entry in self.writes.all() {",
        "if self.existing.changed.borrow().contains(&key) {",
        "let copies = &state.existing;",
        "self.existing.snapshots.borrow_mut().insert(key, copy);",
    ] {
        assert!(looks_into_notes(line), "{line}");
    }
    for line in [
        "if self.writes.has_changes() || self.writes.is_recording() {",
        "if self.writes.now() != written {",
        "self.existing.cells.borrow_mut()",
        "let existing = self.existing_objects();",
        "region.existing.iter().chain(arguments)",
        "self.writes_of(object)",
    ] {
        assert!(!looks_into_notes(line), "{line}");
    }
    let chained = "fn f() {\n    // A comment.\n    self.writes\n        .find(storage)\n}\n#[cfg(test)]\nmod tests {}";
    assert_eq!(code(chained)[1], (3, "self.writes.find(storage)".to_owned()));
    assert!(is_raw("if let Some(dict) = instance_dict(owner)") && is_raw("types::attribute_past_python(owner, name)?"));
    assert!(!is_raw("if types::has_instance_dict(&class) {"));
}
