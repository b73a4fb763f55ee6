//! Compares this crate with the interpreter on one code object.

use dynamlir_bytecode::{Assembly, CodeObject, Dominators, Flow, Liveness, StackDepths, Version, disassemble};

use super::support::Facts;

/// Returns the differences: their names and details. A test expects none.
pub fn differences(object: &CodeObject, facts: &Facts) -> Vec<(&'static str, String)> {
    let code = match object.decode() {
        Ok(code) => code,
        Err(error) => return vec![("decode", error.to_string())],
    };
    let positions = match object.positions() {
        Ok(positions) => positions,
        Err(error) => return vec![("positions", error.to_string())],
    };
    let mut found = Vec::new();
    let mut note = |differs: bool, what, how: String| {
        if differs {
            found.push((what, how));
        }
    };
    note(positions.0 != facts.positions, "positions", format!("{:?}", positions.0.iter().zip(&facts.positions).find(|(a, b)| a != b)));
    note(object.slots() != facts.slots, "slots", format!("{:?} {:?}", object.slots(), facts.slots));

    match Assembly::of(&code, &positions).assemble(object.first_line) {
        Err(error) => note(true, "assemble", error.to_string()),
        Ok(made) => {
            note(made.bytecode != object.bytecode, "assembled code", String::new());
            note(made.exception_table != object.exception_table, "assembled exceptions", String::new());
            note(made.line_table != object.line_table, "assembled lines", String::new());
        }
    }

    let flow = Flow::of(&code);
    match StackDepths::of(&code, &flow) {
        Err(error) => note(true, "stack", error.to_string()),
        Ok(depths) =>
        // The compiler counts blocks that it later drops.
        {
            note(depths.max > object.stack_size, "stack size", format!("{} for {}", depths.max, object.stack_size));
        }
    }
    let dominators = Dominators::of(&flow);
    let reached = flow.reverse_postorder();
    note(reached.iter().any(|&block| !dominators.dominates(0, block)), "dominators", "the entry dominates what it reaches".to_owned());
    let parameters = object.parameter_count() as u32;
    let unbound: Vec<_> = Liveness::of(&code, &flow).live(0).into_iter().filter(|&slot| slot >= parameters).collect();
    // Reading a local before it is written is legal, but rare for cells and free variables.
    note(unbound.iter().any(|&slot| slot as usize >= facts.slots.len()), "liveness", format!("{unbound:?}"));

    if let Some(expected) = &facts.dis {
        let text = disassemble(object).unwrap_or_default();
        let own = text.split("\nDisassembly of ").next().unwrap_or_default();
        // 3.11's `dis` shows no names there.
        let names = object.version == Version::V3_11;
        let own =
            own.lines().map(|line| line.split_once(" (").filter(|_| names && line.contains("KW_NAMES")).map_or(line, |(head, _)| head));
        let own = own.collect::<Vec<_>>().join("\n");
        if own.trim_end() != expected.trim_end() {
            let line = own.lines().zip(expected.lines()).find(|(ours, theirs)| ours != theirs);
            note(true, "disassembly", format!("{line:?}"));
        }
    }
    found
}
