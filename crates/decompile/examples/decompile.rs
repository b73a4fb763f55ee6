//! Decompiles the code objects of a dump from standard input; writes one JSON object per line to standard output.
//!
//! ```text
//! python3.12 scripts/bytecode_dump.py FILE | cargo run --release --example decompile -- 3.12
//! ```
#![forbid(unsafe_code)]

#[path = "../../bytecode/tests/support/mod.rs"]
mod support;

use std::io::BufRead;

use dynamlir_bytecode::Version;
use dynamlir_decompile::decompile;
use serde_json::{Value, json};

fn main() {
    let wanted = std::env::args().nth(1).expect("a version, such as 3.12");
    let version = *Version::ALL.iter().find(|version| version.to_string() == wanted).expect("a version this crate knows");
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input is readable");
        let dump: Value = serde_json::from_str(&line).expect("a line of the dump");
        let made = decompile(&support::code(version, &dump["code"]));
        println!("{}", json!({"path": dump["path"], "text": made.text, "unknown": made.unknown}));
    }
}
