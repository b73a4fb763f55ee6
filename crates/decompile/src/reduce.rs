//! Converts expressions with internal control flow to steps: `and`, `or`, `… if … else …`, `a < b < c`.
//!
//! Each rule examines a block and the few blocks after it that have no other predecessors. In the drawings, `T` and `F` are the successors
//! for a true and a false test.

use crate::{
    ast::Unary,
    blocks::{BlockId, Blocks},
    graph::{Edge, Next},
    op::{Keeps, Op},
};

/// Applies all rules until none matches.
pub(crate) fn reduce(blocks: &mut Blocks<'_>) {
    loop {
        let mut incoming = blocks.incoming();
        let mut changed = false;
        for block in blocks.order() {
            // A block merged into another one is left empty and unreachable.
            while incoming[block] > 0 && step(blocks, &mut incoming, block) {
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// Returns true if the steps form an expression: they take `below` entries from the stack and leave one.
pub(crate) fn is_expression(ops: &[Op<'_>], below: usize) -> bool {
    let mut depth = below;
    let mut at = 0;
    while at < ops.len() {
        match (&ops[at], ops.get(at + 1)) {
            // `name := value`
            (Op::Copy(1), Some(Op::Store(..))) if depth > 0 => at += 1,
            (Op::Copy(_) | Op::Swap(_), _) => return false,
            (op, _) => {
                let (pops, pushes) = op.effect();
                if !op.is_expression() || pops > depth {
                    return false;
                }
                depth += pushes - pops.min(pushes);
                depth -= pops - pops.min(pushes);
            }
        }
        at += 1;
    }
    depth == 1
}

/// Returns true if the steps take a value that was on the stack before them.
fn reaches_down(ops: &[Op<'_>]) -> bool {
    let mut depth: usize = 0;
    for op in ops {
        let (pops, pushes) = op.effect();
        if pops > depth {
            return true;
        }
        depth = depth - pops + pushes;
    }
    false
}

/// Applies one rule at a block.
fn step(blocks: &mut Blocks<'_>, incoming: &mut [usize], block: BlockId) -> bool {
    if chain(blocks, incoming, block) {
        return true;
    }
    match blocks.all[block].next {
        Next::One(edge) => join(blocks, incoming, block, edge),
        Next::Branch { yes, no } => {
            !(reaches_down(&blocks.all[block].ops) && compares_on(blocks, block)) && branch(blocks, incoming, block, yes, no)
        }
        Next::OrPop { keep_if, keep, drop } => or_pop(blocks, incoming, block, keep_if, keep, drop),
        _ => false,
    }
}

/// Returns true if the block continues a chained comparison: it must become a part of that first.
fn compares_on(blocks: &Blocks<'_>, block: BlockId) -> bool {
    blocks.all.iter().any(|before| {
        let leads = match before.next {
            Next::Branch { yes, .. } => yes.to == block,
            Next::OrPop { drop, .. } => drop.to == block,
            _ => false,
        };
        leads && chained(&before.ops).is_some()
    })
}

/// Matches `SWAP 2; COPY 2; COMPARE_OP` at the end.
fn chained(ops: &[Op<'_>]) -> Option<&'static str> {
    match ops {
        [.., Op::Swap(2), Op::Copy(2), Op::Compare(symbol)] => Some(symbol),
        _ => None,
    }
}

/// Returns true for a successor of `block` in the same region without other predecessors.
fn own(blocks: &Blocks<'_>, incoming: &[usize], block: BlockId, edge: Edge) -> bool {
    edge.to != block && incoming[edge.to] == 1 && blocks.all[edge.to].region == blocks.all[block].region
}

/// The same, for a successor that consists of an expression that takes `below` entries.
fn operand(blocks: &Blocks<'_>, incoming: &[usize], block: BlockId, edge: Edge, below: usize) -> bool {
    own(blocks, incoming, block, edge) && is_expression(&blocks.all[edge.to].ops, below)
}

/// Takes a block's steps and successors; the block becomes unreachable.
fn take<'a>(blocks: &mut Blocks<'a>, incoming: &mut [usize], from: BlockId) -> (Vec<Op<'a>>, Next) {
    let ops = std::mem::take(&mut blocks.all[from].ops);
    let next = std::mem::replace(&mut blocks.all[from].next, Next::End);
    incoming[from] = 0;
    next.edges().for_each(|edge| incoming[edge.to] -= 1);
    (ops, next)
}

/// Gives a block other successors, and empties blocks that become unreachable.
fn lead(blocks: &mut Blocks<'_>, incoming: &mut [usize], block: BlockId, next: Next) {
    next.edges().for_each(|edge| incoming[edge.to] += 1);
    let mut open = vec![std::mem::replace(&mut blocks.all[block].next, next)];
    while let Some(old) = open.pop() {
        for edge in old.edges().filter(|edge| incoming[edge.to] > 0).collect::<Vec<_>>() {
            incoming[edge.to] -= 1;
            if incoming[edge.to] == 0 {
                blocks.all[edge.to].ops.clear();
                open.push(std::mem::replace(&mut blocks.all[edge.to].next, Next::End));
            }
        }
    }
}

/// Ends a block with a step and successors.
fn end<'a>(blocks: &mut Blocks<'a>, incoming: &mut [usize], block: BlockId, op: Op<'a>, next: Next) {
    blocks.all[block].ops.push(op);
    lead(blocks, incoming, block, next);
}

fn negated(mut ops: Vec<Op<'_>>) -> Vec<Op<'_>> {
    ops.push(Op::Unary(Unary::Not));
    ops
}

/// Merges `A → B` into one block.
fn join(blocks: &mut Blocks<'_>, incoming: &mut [usize], block: BlockId, edge: Edge) -> bool {
    let held = |block: BlockId| {
        let block = &blocks.all[block];
        block.ops.contains(&Op::Reraise) || matches!(block.next, Next::For { .. })
    };
    if !own(blocks, incoming, block, edge) || held(edge.to) || held(block) || blocks.all[block].breaks {
        return false;
    }
    let (last, breaks) = (blocks.all[edge.to].last, blocks.all[edge.to].breaks);
    let (ops, next) = take(blocks, incoming, edge.to);
    lead(blocks, incoming, block, next);
    let block = &mut blocks.all[block];
    block.ops.extend(ops);
    block.last = block.last.max(last);
    block.breaks = breaks;
    true
}

/// The rules for a test.
fn branch(blocks: &mut Blocks<'_>, incoming: &mut [usize], block: BlockId, yes: Edge, no: Edge) -> bool {
    let then = operand(blocks, incoming, block, yes, 0).then(|| blocks.all[yes.to].next.clone());
    let other = operand(blocks, incoming, block, no, 0).then(|| blocks.all[no.to].next.clone());
    // Only a guard or another pattern may be added to a case.
    let cased = is_case(&blocks.all[block].ops);
    let pattern = |at: BlockId| matches!(blocks.all[at].ops[..], [Op::Case(_, Keeps::Subject)]);
    let guards = matches!(&then, Some(Next::Branch { yes: t, no: f }) if f.to == no.to || t.to == no.to) && !pattern(yes.to);
    let joins = matches!(&other, Some(Next::Branch { yes: t, .. }) if t.to == yes.to) && pattern(no.to);
    if (cased && !guards && !joins) || (!cased && (pattern(yes.to) || pattern(no.to))) {
        return false;
    }
    let (then, other) = if cased { (then.filter(|_| guards), other.filter(|_| joins)) } else { (then, other) };
    match (then, other) {
        // a → (b → T, F), (c → T, F)  is  b if a else c → T, F
        (Some(Next::Branch { yes: t, no: f }), Some(Next::Branch { yes: t2, no: f2 })) if t.to == t2.to && f.to == f2.to => {
            conditional(blocks, incoming, block, (yes, no), false, Next::Branch { yes: t, no: f })
        }
        (Some(Next::Branch { yes: t, no: f }), Some(Next::Branch { yes: t2, no: f2 })) if t.to == f2.to && f.to == t2.to => {
            conditional(blocks, incoming, block, (yes, no), true, Next::Branch { yes: t, no: f })
        }
        // a → (b → M), (c → M)  is  b if a else c → M
        (Some(Next::One(b)), Some(Next::One(c))) if b.to == c.to => conditional(blocks, incoming, block, (yes, no), false, Next::One(b)),
        // The same before `and` or `or`.
        (Some(next @ Next::OrPop { keep_if, keep, drop }), Some(Next::OrPop { keep_if: k, keep: m, drop: d }))
            if keep_if == k && keep.to == m.to && drop.to == d.to =>
        {
            conditional(blocks, incoming, block, (yes, no), false, next)
        }
        // a → (b → T, F), F  is  a and b → T, F
        (Some(Next::Branch { yes: t, no: f }), _) if f.to == no.to => {
            let (ops, _) = take(blocks, incoming, yes.to);
            end(blocks, incoming, block, Op::And(ops), Next::Branch { yes: t, no });
            true
        }
        (Some(Next::Branch { yes: t, no: f }), _) if t.to == no.to => {
            let (ops, _) = take(blocks, incoming, yes.to);
            end(blocks, incoming, block, Op::And(negated(ops)), Next::Branch { yes: f, no });
            true
        }
        // a → T, (b → T, F)  is  a or b → T, F
        (_, Some(Next::Branch { yes: t, no: f })) if t.to == yes.to => {
            let (ops, _) = take(blocks, incoming, no.to);
            end(blocks, incoming, block, Op::Or(ops), Next::Branch { yes, no: f });
            true
        }
        (_, Some(Next::Branch { yes: t, no: f })) if f.to == yes.to => {
            let (ops, _) = take(blocks, incoming, no.to);
            end(blocks, incoming, block, Op::Or(negated(ops)), Next::Branch { yes, no: t });
            true
        }
        // a → (b, kept → M, popped → C), C:  b and a together decide, and C is added to the result
        (Some(Next::OrPop { keep_if, keep, drop }), _) if drop.to == no.to => {
            let (ops, _) = take(blocks, incoming, yes.to);
            let op = if keep_if { Op::And(ops) } else { Op::Or(ops) };
            if !keep_if {
                blocks.all[block].ops.push(Op::Unary(Unary::Not));
            }
            end(blocks, incoming, block, op, Next::OrPop { keep_if, keep, drop });
            true
        }
        (_, Some(Next::OrPop { keep_if, keep, drop })) if drop.to == yes.to => {
            let (ops, _) = take(blocks, incoming, no.to);
            let op = if keep_if { Op::And(ops) } else { Op::Or(ops) };
            if keep_if {
                blocks.all[block].ops.push(Op::Unary(Unary::Not));
            }
            end(blocks, incoming, block, op, Next::OrPop { keep_if, keep, drop });
            true
        }
        _ => false,
    }
}

/// Returns true if steps end with the test of a case, possibly with its guard.
fn is_case(ops: &[Op<'_>]) -> bool {
    let added = |op: &&Op<'_>| matches!(op, Op::And(_) | Op::Or(_));
    matches!(ops.iter().rev().find(|op| !added(op)), Some(Op::Case(..)))
}

/// Turns both branches of a test into the values of a conditional expression.
fn conditional(blocks: &mut Blocks<'_>, incoming: &mut [usize], block: BlockId, ways: (Edge, Edge), negate: bool, next: Next) -> bool {
    let (then, _) = take(blocks, incoming, ways.0.to);
    let (other, _) = take(blocks, incoming, ways.1.to);
    let other = if negate { negated(other) } else { other };
    end(blocks, incoming, block, Op::IfElse(then, other), next);
    true
}

/// a, kept → M, popped → (b → M)  is  a and b → M, or the same with `or`
fn or_pop(blocks: &mut Blocks<'_>, incoming: &mut [usize], block: BlockId, keep_if: bool, keep: Edge, drop: Edge) -> bool {
    if !operand(blocks, incoming, block, drop, 0) || blocks.all[drop.to].next.one() != Some(keep.to) {
        return false;
    }
    let (ops, next) = take(blocks, incoming, drop.to);
    let op = if keep_if { Op::Or(ops) } else { Op::And(ops) };
    // A complete `and` whose value is tested again was in parentheses; in an unparenthesised chain it would have jumped past the second
    // test.
    let last = blocks.all[block].ops.last();
    if matches!((last, &op), (Some(Op::And(_)), Op::And(_)) | (Some(Op::Or(_)), Op::Or(_))) {
        blocks.all[block].ops.push(Op::Group);
    }
    end(blocks, incoming, block, op, next);
    true
}

/// a b SWAP COPY < → (c < …), or away through a block that drops b:  a < b < c
fn chain(blocks: &mut Blocks<'_>, incoming: &mut [usize], block: BlockId) -> bool {
    let Some(symbol) = chained(&blocks.all[block].ops) else { return false };
    let (on, away, clean): (_, _, &[Op<'_>]) = match blocks.all[block].next {
        Next::Branch { yes, no } => (yes, no, &[Op::Pop]),
        Next::OrPop { keep_if: false, keep, drop } => (drop, keep, &[Op::Swap(2), Op::Pop]),
        _ => return false,
    };
    if !operand(blocks, incoming, block, on, 1) || blocks.all[away.to].ops != clean {
        return false;
    }
    let Next::One(out) = blocks.all[away.to].next else { return false };
    let fits = match blocks.all[on.to].next {
        Next::Branch { no, .. } => matches!(blocks.all[block].next, Next::Branch { .. }) && no.to == out.to,
        Next::One(edge) => matches!(blocks.all[block].next, Next::OrPop { .. }) && edge.to == out.to,
        _ => false,
    };
    if !fits {
        return false;
    }
    let (rest, next) = take(blocks, incoming, on.to);
    let ops = &mut blocks.all[block].ops;
    ops.truncate(ops.len() - 3);
    end(blocks, incoming, block, Op::Chain(symbol, rest), next);
    true
}
