//! Decompiles code objects and compares them with the code compiled from the resulting source.
//!
//! `scripts/bytecode_roundtrip.py` drives it. The answer to a line of a dump is the source. The next input line is the dump of that source,
//! compiled again (or `null`), and the answer is a verdict for each code object.
#![forbid(unsafe_code)]

#[path = "../../bytecode/tests/support/mod.rs"]
mod support;

use std::io::{BufRead, Write};

use dynamlir_bytecode::{CodeObject, Const, Version, equivalent};
use dynamlir_decompile::decompile;
use serde_json::{Value, json};

/// Appends the verdicts of a code object and its nested code objects: qualified name, line, verdict, reason.
fn verdicts(original: &CodeObject, made: Option<&CodeObject>, unknown: &[String], out: &mut Vec<Value>) {
    let left = unknown.iter().find(|name| name.starts_with(&format!("{}: ", original.qualname)));
    let (verdict, reason) = match (left, made) {
        (Some(left), _) => ("unknown", left.clone()),
        (None, None) => ("inside", String::new()),
        (None, Some(made)) if made.bytecode == original.bytecode && equivalent(original, made).is_ok() => ("identical", String::new()),
        (None, Some(made)) => match equivalent(original, made) {
            Ok(()) => ("equivalent", String::new()),
            Err(difference) => ("different", difference.to_string()),
        },
    };
    out.push(json!([original.qualname, original.first_line, verdict, reason]));
    let nested = |code: &CodeObject| -> Vec<CodeObject> {
        let codes = code.consts.iter().filter_map(|value| if let Const::Code(code) = value { Some((**code).clone()) } else { None });
        codes.collect()
    };
    let mut candidates = made.map(nested).unwrap_or_default();
    for inner in nested(original) {
        let place = candidates.iter().position(|candidate| candidate.name == inner.name);
        let candidate = place.map(|place| candidates.remove(place));
        verdicts(&inner, candidate.as_ref(), unknown, out);
    }
}

fn main() {
    let wanted = std::env::args().nth(1).expect("a version, such as 3.12");
    let version = *Version::ALL.iter().find(|version| version.to_string() == wanted).expect("a version this crate knows");
    let mut lines = std::io::stdin().lock().lines().map(|line| line.expect("standard input is readable"));
    let mut out = std::io::stdout().lock();
    while let Some(line) = lines.next() {
        let dump: Value = serde_json::from_str(&line).expect("a line of the dump");
        let original = support::code(version, &dump["code"]);
        let decompiled = decompile(&original);
        writeln!(out, "{}", json!({"text": decompiled.text})).expect("standard output is open");
        out.flush().expect("standard output is open");
        let Some(line) = lines.next() else { return };
        let dump: Value = serde_json::from_str(&line).expect("a line of the dump");
        let made = dump.get("code").map(|code| support::code(version, code));
        let mut found = Vec::new();
        verdicts(&original, made.as_ref(), &decompiled.unknown, &mut found);
        writeln!(out, "{}", Value::Array(found)).expect("standard output is open");
        out.flush().expect("standard output is open");
    }
}
