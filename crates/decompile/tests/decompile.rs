//! Tests of decompiling: source forms that are restored unchanged, refusals, and damaged code, which must not panic.
//!
//! `scripts/bytecode_roundtrip.py` recompiles the results for whole standard libraries and compares them.

#[path = "../../bytecode/tests/support/mod.rs"]
mod support;

use dynamlir_bytecode::{CodeObject, Const, Opcode, Version, equivalent, number_of};
use dynamlir_decompile::decompile;

fn module(name: &str, version: Version) -> CodeObject {
    let path = format!("{}/../bytecode/tests/fixtures/{name}-{version}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let dump: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    support::code(version, &dump["code"])
}

/// Returns a nested code object by name.
fn nested(code: &CodeObject, name: &str) -> CodeObject {
    let mut codes = code.consts.iter().filter_map(|value| if let Const::Code(code) = value { Some(code) } else { None });
    (**codes.find(|code| code.name == name).unwrap_or_else(|| panic!("no {name}"))).clone()
}

/// Returns the significant lines with uniform quotes: blank lines, comments and the choice of quotes are not in the bytecode.
fn plain(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| line.replace('"', "'").replace("'''", "'"))
        .collect()
}

/// Each module of the corpus, on each version that supports its syntax.
#[test]
fn source_comes_back() {
    let corpus = [
        ("forms", Version::V3_11),
        ("annotated", Version::V3_11),
        ("cases", Version::V3_11),
        ("since_3_12", Version::V3_12),
        ("since_3_14", Version::V3_14),
        ("since_3_15", Version::V3_15),
    ];
    for (name, since) in corpus {
        let path = format!("{}/../bytecode/tests/corpus/{name}.py", env!("CARGO_MANIFEST_DIR"));
        let source = plain(&std::fs::read_to_string(path).expect("the corpus"));
        for version in Version::ALL.into_iter().filter(|version| *version >= since) {
            let made = decompile(&module(name, version));
            assert_eq!(made.unknown, [] as [String; 0], "{version}");
            for (own, wanted) in plain(&made.text).iter().zip(&source) {
                assert_eq!(own, wanted, "{version}, in\n{}", made.text);
            }
            assert_eq!(plain(&made.text).len(), source.len(), "{version}");
        }
    }
}

#[test]
fn what_is_not_understood_raises_and_is_listed() {
    for version in Version::ALL {
        let made = decompile(&nested(&module("unknown", version), "groups"));
        assert_eq!(made.unknown.len(), 1, "{version}");
        let lines: Vec<&str> = made.text.lines().collect();
        assert_eq!(lines[0], "def groups(call):");
        assert!(lines[1].starts_with("    # Not decompiled: "), "{}", lines[1]);
        let (last, comments) = lines[1..].split_last().expect("lines");
        assert!(comments.iter().all(|line| line.starts_with("    #")), "nothing but comments before it");
        assert!(last.starts_with("    raise NotImplementedError("), "{last}");
    }
}

#[test]
fn code_is_equivalent_to_itself_only() {
    for version in Version::ALL {
        let forms = module("forms", version);
        let (calls, loops) = (nested(&forms, "calls"), nested(&forms, "loops"));
        assert_eq!(equivalent(&calls, &calls), Ok(()));
        assert!(equivalent(&calls, &loops).is_err());
        // Another constant, another name, another handler: each difference is detected.
        let mut other = nested(&forms, "operators");
        let original = other.clone();
        for value in &mut other.consts {
            if *value == Const::Int("1".to_owned()) {
                *value = Const::Int("2".to_owned());
            }
        }
        // From 3.14 on, small ints are encoded in the instructions.
        for instruction in original.decode().expect("valid code").instructions {
            if instruction.opcode == Opcode::LoadSmallInt && instruction.arg == 1 {
                other.bytecode[2 * instruction.unit as usize + 1] = 2;
            }
        }
        assert!(equivalent(&original, &other).is_err(), "{version}");
        let mut other = original.clone();
        other.names.reverse();
        assert!(equivalent(&original, &other).is_err(), "{version}");
        let handlers = nested(&forms, "handlers");
        let unprotected = CodeObject { exception_table: Vec::new(), ..handlers.clone() };
        assert!(equivalent(&handlers, &unprotected).is_err(), "{version}");
        // Steps that do nothing are not detected.
        let nop = number_of(version, Opcode::Nop).expect("NOP");
        let bytecode = [&[nop, 0], &calls.bytecode[..]].concat();
        let line_table = [&[0x80 | 15 << 3], &calls.line_table[..]].concat();
        assert_eq!(equivalent(&calls, &CodeObject { bytecode, line_table, ..calls.clone() }), Ok(()), "{version}");
    }
}

/// Real code with changed bytes: it often decodes, but is meaningless.
#[test]
fn damaged_code_does_not_make_it_panic() {
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let mut decoded = 0;
    for version in Version::ALL {
        let forms = module("forms", version);
        for value in &forms.consts {
            let Const::Code(code) = value else { continue };
            for _ in 0..60 {
                let mut damaged = (**code).clone();
                for _ in 0..=next() % 4 {
                    // Changes an argument half of the time: the code then still decodes.
                    let at = (next() % damaged.bytecode.len()) | (next() % 2);
                    damaged.bytecode[at] = (next() % 130) as u8;
                }
                if next() % 4 == 0 && !damaged.exception_table.is_empty() {
                    let at = next() % damaged.exception_table.len();
                    damaged.exception_table[at] ^= 1 << (next() % 6);
                }
                if next() % 8 == 0 {
                    damaged.names.truncate(next() % (damaged.names.len() + 1));
                    damaged.varnames.truncate(next() % (damaged.varnames.len() + 1));
                }
                decoded += usize::from(damaged.decode().is_ok());
                let _ = decompile(&damaged);
                let _ = equivalent(code, &damaged);
            }
        }
    }
    assert!(decoded > 500, "only {decoded} decoded: the test has gone blunt");
}
