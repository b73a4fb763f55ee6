//! The rest of a function, from each of its instructions on: valid code, on each version, and source where a statement begins.

#[path = "../../bytecode/tests/support/mod.rs"]
mod support;

use dynamlir_bytecode::{CodeObject, Const, Flow, Opcode, Place, ResumeError, StackDepths, Version, flags, resume};
use dynamlir_decompile::decompile;

fn module(name: &str, version: Version) -> CodeObject {
    let path = format!("{}/../bytecode/tests/fixtures/{name}-{version}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let dump: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    support::code(version, &dump["code"])
}

/// Collects all functions, including nested ones.
fn functions(code: &CodeObject, found: &mut Vec<CodeObject>) {
    for value in &code.consts {
        if let Const::Code(code) = value {
            if code.has(flags::OPTIMIZED) {
                found.push((**code).clone());
            }
            functions(code, found);
        }
    }
}

const LATER: u32 = flags::GENERATOR | flags::COROUTINE | flags::ASYNC_GENERATOR;

#[test]
fn each_instruction_can_be_where_it_begins() {
    // Resuming in the loops of 3.15 is not supported yet.
    for version in Version::ALL.into_iter().filter(|version| *version < Version::V3_15) {
        let mut codes = Vec::new();
        for name in ["forms", "facts"] {
            functions(&module(name, version), &mut codes);
        }
        let (mut told, mut statements) = (0, 0);
        for code in codes {
            let decoded = code.decode().expect("it decodes");
            let flow = Flow::of(&decoded);
            let depths = StackDepths::of(&decoded, &flow).expect("its stack works out");
            let positions = code.positions().expect("positions");
            let mut line = None;
            for (at, instruction) in decoded.instructions.iter().enumerate() {
                let Some(depth) = depths.before[at] else { continue };
                let place = Place { unit: instruction.start, stack: vec![true; depth as usize], calls: false };
                let made = match resume(&code, &place, 1) {
                    Ok(made) => made,
                    Err(ResumeError::Later) if code.has(LATER) => continue,
                    Err(error) => panic!("{version}, {} at {}: {error}", code.name, instruction.start),
                };
                let rest = made.decode().expect("the rest decodes");
                assert_eq!(made.name, format!("__resume_at_{}_1", 2 * instruction.start));
                let begins = positions.line(instruction.unit) != line && at > 0;
                line = positions.line(instruction.unit);
                let handles = decoded.instructions[..=at].iter().any(|found| found.opcode == Opcode::PushExcInfo);
                if handles || code.name.starts_with('<') {
                    continue;
                }
                StackDepths::of(&rest, &Flow::of(&rest))
                    .unwrap_or_else(|error| panic!("{version}, {} at {}: {error}", code.name, instruction.start));
                let made = decompile(&made);
                if begins {
                    statements += 1;
                    told += usize::from(made.unknown.is_empty());
                }
            }
        }
        // The others are in the middle of comprehensions, of `match`, and of loops with an `else` that are left and continued.
        assert!(told * 4 > statements * 3, "{version}: {told} of {statements}");
    }
}
