//! The statements of one code object.

use dynamlir_bytecode::{CodeObject, Flow, Instruction, Opcode, Operand, StackDepths};

use crate::{
    Problem,
    ast::{Comprehension, Expr, Makes, Marker, Stmt},
    blocks::Blocks,
    comprehend::comprehend,
    functions,
    graph::{self, Next},
    lift::Source,
    machine::{Declared, State},
    merge::merge,
    op::{Display, Op},
    reduce::reduce,
    structure::Structurer,
    tidy,
    unwind::{fold_finally, unwind},
};

/// The kind of a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scoped {
    Module,
    Class,
    Function,
    Lambda,
}

/// Returns the blocks of a code object, after all transformations that precede the construction of statements.
fn blocks<'a>(code: &'a CodeObject, declared: &mut Declared<'a>) -> Result<Blocks<'a>, Problem> {
    let decoded = code.decode().map_err(|_| Problem::Malformed)?;
    let positions = code.positions().map_err(|_| Problem::Malformed)?;
    if decoded.instructions.is_empty() {
        return Err(Problem::Malformed);
    }
    let flow = Flow::of(&decoded);
    let depths = StackDepths::of(&decoded, &flow).map_err(|_| Problem::Malformed)?;
    let source = Source::new(code);
    for instruction in &decoded.instructions {
        let cell = instruction.opcode.operand(code.version) == Some(Operand::Free) && instruction.opcode != Opcode::MakeCell;
        // The cells that 3.13 passes to a nested function are loaded like locals.
        if cell || matches!(instruction.opcode, Opcode::LoadFast | Opcode::LoadFastBorrow) {
            declared.used.extend(source.slot(instruction.arg));
        }
        if instruction.opcode == Opcode::LoadFastCheck {
            let name = source.slot(instruction.arg)?;
            let global = |other: &&Instruction| other.opcode == Opcode::LoadGlobal && source.name(other) == Ok(name);
            if !decoded.instructions.iter().any(|other| global(&other)) {
                declared.checked.push(name);
            }
        }
        if matches!(instruction.opcode, Opcode::LoadFastLoadFast | Opcode::LoadFastBorrowLoadFastBorrow) {
            declared.used.extend(source.slot(instruction.arg >> 4).into_iter().chain(source.slot(instruction.arg & 15)));
        }
    }
    let mut graph = graph::build(&source, &decoded, &positions, &depths)?;
    unwind(&mut graph);
    merge(&mut graph);
    fold_finally(&mut graph)?;
    merge(&mut graph);
    let mut blocks = Blocks::of(graph);
    reduce(&mut blocks);
    while comprehend(&mut blocks, declared)? {
        reduce(&mut blocks);
    }
    Ok(blocks)
}

/// Returns the statements of a function, class or module.
pub(crate) fn statements(code: &CodeObject, scoped: Scoped) -> Result<Vec<Stmt<'_>>, Problem> {
    let mut declared = Declared::default();
    let blocks = blocks(code, &mut declared)?;
    let entry = blocks.entry;
    let mut structurer = Structurer::new(blocks, &mut declared, matches!(scoped, Scoped::Function | Scoped::Lambda));
    let statements = structurer.run(entry, State::default())?;
    tidy::body(code, scoped, statements, &declared)
}

/// Returns the steps of a function that does not branch.
pub(crate) fn only_block(code: &CodeObject) -> Result<Vec<Op<'_>>, Problem> {
    let blocks = blocks(code, &mut Declared::default())?;
    match blocks.all[blocks.entry].next {
        Next::End => Ok(blocks.all[blocks.entry].ops.clone()),
        _ => Err(Problem::Unstructured("a branch that no statement makes", blocks.all[blocks.entry].at)),
    }
}

/// Returns the statements of a function that adds entries to the dict that it returns: each entry is a [`Stmt::Append`].
pub(crate) fn entries(code: &CodeObject, scoped: Scoped) -> Result<Vec<Stmt<'_>>, Problem> {
    let mut declared = Declared::default();
    let mut blocks = blocks(code, &mut declared)?;
    let dict = blocks.all.iter_mut().flat_map(|block| &mut block.ops).find(|op| **op == Op::BuildMap(0));
    *dict.ok_or(Problem::Stack("a dict that is not made"))? = Op::Push(Expr::Marker(Marker::Accumulator));
    let entry = blocks.entry;
    let mut structurer = Structurer::new(blocks, &mut declared, matches!(scoped, Scoped::Function | Scoped::Lambda));
    let statements = structurer.run(entry, State::default())?;
    tidy::body(code, scoped, statements, &declared)
}

/// Returns the comprehension of a code object, without its first iterator, and the names that it stores with `:=`.
pub(crate) fn comprehension(code: &CodeObject, makes: Makes) -> Result<(Comprehension<'_>, Declared<'_>), Problem> {
    let mut declared = Declared::default();
    let mut blocks = blocks(code, &mut declared)?;
    let entry = blocks.entry;
    // The collection stays on the stack while its loops run.
    if makes != Makes::Generator {
        // A coroutine starts with the value passed in by `send`.
        let starts = |op: &&mut Op<'_>| !matches!(op, Op::Push(Expr::Marker(Marker::Sent)) | Op::Pop);
        match blocks.all[entry].ops.iter_mut().find(starts) {
            Some(op @ (Op::Build(Display::List | Display::Set, 0) | Op::BuildMap(0))) => *op = Op::Push(Expr::Marker(Marker::Accumulator)),
            _ => return Err(Problem::Stack("a comprehension that makes nothing")),
        }
    }
    let statements = Structurer::new(blocks, &mut declared, false).run(entry, State::default())?;
    let made = statements.into_iter().next().ok_or(Problem::Malformed)?;
    Ok((functions::from_loops(makes, made)?, declared))
}
