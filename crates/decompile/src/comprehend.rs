//! Comprehensions that 3.12 and later inline into the enclosing function.
//!
//! ```text
//! iterator; LOAD_FAST_AND_CLEAR x; SWAP 2; BUILD_LIST 0; SWAP 2; loop: FOR_ITER …; end: SWAP 2; STORE_FAST x
//! ```
//! From 3.15 on, `GET_ITER` comes before the loop instead. The loop is decompiled separately and becomes one step.

use crate::{
    Problem,
    ast::{Expr, Makes, Marker},
    blocks::{BlockId, Blocks},
    functions::from_loops,
    graph::Next,
    machine::{Declared, State},
    op::{Display, Op},
    structure::Structurer,
};

/// The position of a comprehension.
struct Found {
    /// The block that starts it, and the number of its steps that come before.
    before: BlockId,
    kept: usize,
    makes: Makes,
    header: BlockId,
    /// True if the iterator is created at the start of the comprehension, not before.
    iterates: bool,
}

/// Turns one innermost comprehension into a step; returns false if there is none.
pub(crate) fn comprehend<'a>(blocks: &mut Blocks<'a>, declared: &mut Declared<'a>) -> Result<bool, Problem> {
    let order = blocks.order();
    // A comprehension inside another comes later in the code.
    let Some(found) = order.iter().filter_map(|&block| start(blocks, block)).max_by_key(|found| blocks.all[found.before].at) else {
        return Ok(false);
    };
    let Next::For { exit, .. } = blocks.all[found.header].next else { return Err(Problem::Malformed) };
    let mut inner = Declared::default();
    let mut structurer = Structurer::new(blocks.clone(), &mut inner, false);
    let mut state = State::default();
    state.push(Expr::Marker(Marker::Accumulator));
    state.push(Expr::Iterated(Box::new(Expr::Null)));
    if blocks.has_place(found.header) {
        state.push(Expr::Marker(Marker::Place));
    }
    let statement = structurer.only_loop(found.header, state)?;
    // Its variables are local to it, except those stored with `:=`.
    declared.hidden.append(&mut inner.locals);
    declared.globals.append(&mut inner.globals);
    declared.through.append(&mut inner.through);
    let made = from_loops(found.makes, statement)?;
    let ops = &blocks.all[found.before].ops[found.kept..];
    let cleared: Vec<&str> = ops.iter().filter_map(|op| if let Op::LoadAndClear(name) = op { Some(*name) } else { None }).collect();
    // Its own variable may hide one of an enclosing function.
    declared.hidden.extend(&cleared);
    declared.nonlocals.extend(inner.nonlocals.into_iter().filter(|name| !cleared.contains(name)));

    put_back(&mut blocks.all[exit.to].ops, &cleared)?;
    let before = &mut blocks.all[found.before];
    before.ops.truncate(found.kept);
    before.ops.extend(found.iterates.then_some(Op::Iter));
    before.ops.push(Op::Comprehend(Box::new(made)));
    before.next = Next::One(exit);
    Ok(true)
}

/// Removes the steps that restore variables: after a SWAP, or, if the compiler omitted it, after the store of the result.
fn put_back(ops: &mut Vec<Op<'_>>, cleared: &[&str]) -> Result<(), Problem> {
    let count = cleared.len();
    let restores = |op: &Op<'_>| matches!(op, Op::Store(_, name) if cleared.contains(name));
    let all = ops.len() > count && ops[1..=count].iter().all(restores);
    match ops.first() {
        _ if count == 0 => {}
        Some(Op::Swap(swapped)) if *swapped == count + 1 && all => {
            ops.drain(..=count);
        }
        Some(Op::Store(..) | Op::Pop) if all => {
            ops.drain(1..=count);
        }
        _ => return Err(Problem::Stack("a comprehension that does not put its variables back")),
    }
    Ok(())
}

/// Returns the comprehension that starts at the end of a block, if any.
fn start(blocks: &Blocks<'_>, block: BlockId) -> Option<Found> {
    let header = blocks.all[block].next.one()?;
    let (ops, Next::For { .. }) = (&blocks.all[block].ops[..], &blocks.all[header].next) else { return None };
    let (ops, iterates) = match ops {
        [rest @ .., Op::Iter, Op::Push(Expr::Marker(Marker::Place))] | [rest @ .., Op::Iter] => (rest, true),
        _ => (ops, false),
    };
    let (rest, makes) = match ops {
        [rest @ .., Op::Build(Display::List, 0), Op::Swap(2)] => (rest, Makes::List),
        [rest @ .., Op::Build(Display::Set, 0), Op::Swap(2)] => (rest, Makes::Set),
        [rest @ .., Op::BuildMap(0), Op::Swap(2)] => (rest, Makes::Dict),
        _ => return None,
    };
    let Some((Op::Swap(count), rest)) = rest.split_last() else {
        return Some(Found { before: block, kept: rest.len(), makes, header, iterates });
    };
    let cleared = count - 1;
    let kept = rest.len().checked_sub(cleared)?;
    let all = rest[kept..].iter().all(|op| matches!(op, Op::LoadAndClear(_)));
    all.then_some(Found { before: block, kept, makes, header, iterates })
}
