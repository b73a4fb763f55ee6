//! Checks this crate against an interpreter: reads a dump with facts from standard input and reports the differences.
//!
//! ```text
//! python3.12 scripts/bytecode_dump.py --stdlib --facts | cargo run --release --example check -- 3.12
//! ```
#![forbid(unsafe_code)]

#[path = "../tests/support/agree.rs"]
mod agree;
#[path = "../tests/support/mod.rs"]
mod support;

use std::{collections::BTreeMap, io::BufRead};

use dynamlir_bytecode::Version;
use serde_json::Value;

fn main() {
    let wanted = std::env::args().nth(1).expect("a version, such as 3.12");
    let version = *Version::ALL.iter().find(|version| version.to_string() == wanted).expect("a version this crate knows");
    let mut total = 0;
    let mut different: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input is readable");
        let dump: Value = serde_json::from_str(&line).expect("a line of the dump");
        support::every(&dump["code"], &mut |code| {
            total += 1;
            let object = support::code(version, code);
            for (what, difference) in agree::differences(&object, &support::facts(code)) {
                let place = format!("{} {}:{}: {difference}", dump["path"], object.qualname, object.first_line);
                different.entry(what).or_default().push(place);
            }
        });
    }
    println!("{total} code objects of {version}");
    for (what, places) in different {
        println!("{what}: {} differ", places.len());
        places.iter().take(3).for_each(|place| println!("  {place}"));
    }
}
