//! Checks against the interpreters: dumps of real code objects with CPython's own facts about them.
//!
//! `scripts/bytecode_tables.py` writes the fixtures; `examples/check.rs` runs the same checks over whole standard libraries.

#[path = "support/agree.rs"]
mod agree;
mod support;

use dynamlir_bytecode::{Opcode, Version, disassemble, stack_effect};
use serde_json::Value;

fn fixture(name: &str, version: Version) -> Value {
    let path = format!("{}/tests/fixtures/{name}-{version}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn decoding_agrees_with_the_interpreter() {
    for version in Version::ALL {
        let mut count = 0;
        support::every(&fixture("facts", version)["code"], &mut |dump| {
            count += 1;
            let object = support::code(version, dump);
            let found = agree::differences(&object, &support::facts(dump));
            assert!(found.is_empty(), "{version} {}: {found:?}", object.qualname);
        });
        assert!(count >= 7, "{version}: {count} code objects");
    }
}

#[test]
fn stack_effects_are_those_of_dis() {
    for version in Version::ALL {
        let effects = fixture("effects", version);
        let effects = effects.as_object().expect("an object");
        for &opcode in Opcode::ALL {
            let Some(expected) = effects.get(opcode.name()) else {
                assert_eq!(stack_effect(version, opcode, 0, false), None, "{version} has no {opcode}");
                continue;
            };
            for (jump, row) in [(true, &expected[0]), (false, &expected[1])] {
                let row = row.as_array().expect("numbers");
                for arg in 0..10 {
                    let wanted = row.get(arg).or(row.first()).and_then(Value::as_i64).map(|effect| effect as i32);
                    assert_eq!(stack_effect(version, opcode, arg as u32, jump), wanted, "{version} {opcode} {arg}, jump: {jump}");
                }
            }
        }
    }
}

/// The layout is that of 3.12's `dis`, forevery version.
#[test]
fn disassembly_reads_like_dis() {
    let dump = fixture("facts", Version::V3_13);
    let text = disassemble(&support::code(Version::V3_13, &dump["code"])).expect("valid code");
    for line in [
        "  0           0 RESUME                   0",
        "              4 STORE_NAME               0 (__doc__)",
        "             18 SET_FUNCTION_ATTRIBUTE     2 (kwdefaults)",
        "Disassembly of <code object closure, file \"facts.py\", line 4>:",
        "              4 MAKE_CELL                6 (total)",
        "ExceptionTable:",
    ] {
        assert!(text.lines().any(|own| own == line), "no line `{line}` in\n{text}");
    }
}
