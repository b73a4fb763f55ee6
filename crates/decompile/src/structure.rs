//! Converts blocks to statements: branches and their joins, and the jumps to each target.
//!
//! A block's statements are followed by those of its successor, up to a target that the enclosing statements handle: the end of a branch,
//! the head of a loop, the exit of a region. Dominators determine where the branches of an `if` meet again: at the block that only the
//! branch as a whole leads to.

use dynamlir_bytecode::{Const, Dominators};

use crate::{
    Problem,
    ast::{Expr, Marker, Stmt, Unary},
    blocks::{BlockId, Blocks},
    cases,
    graph::{Edge, Next},
    loops::Loop,
    machine::{Declared, State, negate, printable, run},
    op::Op,
    regions::{Kind, RegionId},
};

/// Deeper nesting than Python's own parser accepts.
const DEPTH: u32 = 150;

/// The surroundings of the statements under construction.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    /// The block that control reaches after them.
    pub next: Option<BlockId>,
    /// The innermost loop.
    pub looped: Option<&'c Loop<'c>>,
    /// The innermost region.
    pub region: Option<RegionId>,
    pub depth: u32,
}

/// The way in which statements continue at a block.
enum Arrival {
    /// The block's own statements follow.
    Here,
    /// The enclosing statements continue there anyway.
    Done,
    Jump(Stmt<'static>),
}

/// The position after a compound statement.
pub(crate) type After<'a> = Option<(BlockId, State<'a>)>;

/// Builds statements from blocks.
pub(crate) struct Structurer<'a, 'd> {
    pub blocks: Blocks<'a>,
    pub declared: &'d mut Declared<'a>,
    pub dominators: Dominators,
    /// The index of each block in control-flow order.
    pub rank: Vec<usize>,
    pub order: Vec<BlockId>,
    pub predecessors: Vec<Vec<BlockId>>,
    pub written: Vec<bool>,
    /// True for regions that have become statements.
    pub opened: Vec<bool>,
    may_return: bool,
}

impl<'a, 'd> Structurer<'a, 'd> {
    pub fn new(blocks: Blocks<'a>, declared: &'d mut Declared<'a>, may_return: bool) -> Self {
        let order = blocks.order();
        let count = blocks.all.len();
        let mut rank = vec![usize::MAX; count];
        let mut predecessors = vec![Vec::new(); count];
        for (place, &block) in order.iter().enumerate() {
            rank[block] = place;
            for to in blocks.successors(block) {
                if !predecessors[to].contains(&block) {
                    predecessors[to].push(block);
                }
            }
        }
        let opened = vec![false; blocks.handlers.len()];
        let dominators = Dominators::over(&order, count, |block| &predecessors[block]);
        Self { blocks, declared, dominators, rank, order, predecessors, written: vec![false; count], opened, may_return }
    }

    /// Returns all statements from the entry on.
    pub fn run(&mut self, entry: BlockId, state: State<'a>) -> Result<Vec<Stmt<'a>>, Problem> {
        let context = Context { next: None, looped: None, region: None, depth: 0 };
        let statements = self.sequence(entry, state, context)?;
        self.all_written()?;
        Ok(statements)
    }

    /// Checks that nothing was left out: every reachable block has become statements, except implicit parts of handlers.
    fn all_written(&self) -> Result<(), Problem> {
        for &block in &self.order {
            let silent = |op: &Op<'_>| matches!(op, Op::Reraise | Op::EndFinally | Op::Nothing);
            let ops = &self.blocks.all[block].ops;
            if !self.written[block] && !self.of_with(block) && !ops.iter().all(silent) {
                return self.unstructured("code that no statement leads to", block);
            }
        }
        Ok(())
    }

    /// Returns true if a block is part of a `with`'s exception handler.
    fn of_with(&self, block: BlockId) -> bool {
        let with = |&region: &RegionId| self.blocks.regions.0[region].kind == Kind::With;
        let mut handlers = (0..self.blocks.handlers.len()).filter(with).filter_map(|region| self.blocks.handlers[region]);
        let region = self.blocks.all[block].region;
        region.is_some() && handlers.any(|handler| self.blocks.all[handler].region == region)
    }

    pub fn unstructured<T>(&self, what: &'static str, block: BlockId) -> Result<T, Problem> {
        Err(Problem::Unstructured(what, self.blocks.all[block].at))
    }

    /// Returns the statements from a block on.
    pub fn sequence(&mut self, at: BlockId, state: State<'a>, context: Context<'_>) -> Result<Vec<Stmt<'a>>, Problem> {
        let mut out = Vec::new();
        let mut position = Some((at, state));
        while let Some((at, state)) = position {
            match self.arrive(at, &state, context)? {
                Arrival::Here => {}
                Arrival::Done => return Ok(out),
                Arrival::Jump(jump) => {
                    out.push(jump);
                    return Ok(out);
                }
            }
            position = self.statement(at, state, context, &mut out)?;
        }
        Ok(out)
    }

    /// Returns the statements from a block on that is known to be written here: the first of a body, which the body may also lead back to.
    pub fn body(&mut self, at: BlockId, state: State<'a>, context: Context<'_>) -> Result<Vec<Stmt<'a>>, Problem> {
        let mut out = Vec::new();
        if let Some((at, state)) = self.statement(at, state, context, &mut out)? {
            out.extend(self.sequence(at, state, context)?);
        }
        Ok(out)
    }

    /// Appends the statements of a block, up to the end of the compound statement that it ends with. Returns the position after them.
    pub fn statement(
        &mut self,
        at: BlockId,
        state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        if context.depth > DEPTH {
            return self.unstructured("nesting that is too deep", at);
        }
        let context = Context { depth: context.depth + 1, ..context };
        let inner = self.blocks.regions.towards(context.region, self.blocks.all[at].region);
        let iterates = matches!(self.blocks.all[at].next, Next::For { .. });
        let header = (iterates || self.is_header(at)) && context.looped.is_none_or(|looped| looped.header != at);
        match inner {
            Some(region) if !(header && self.loop_is_outside(at, region)) => return self.region(region, at, state, context, out),
            _ => {}
        }
        if header { self.looped(at, state, context, out) } else { self.plain(at, state, context, out) }
    }

    /// Appends a block's own statements.
    pub fn plain(
        &mut self,
        at: BlockId,
        mut state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        self.written[at] = true;
        let block = &self.blocks.all[at];
        let next = block.next.clone();
        if block.ops == [Op::Reraise] {
            return self.unstructured("an exception raised again", at);
        }
        run(&block.ops, &mut state, self.declared, out)?;
        match next {
            // The remaining value was to be returned, but the intervening `finally` does not return.
            Next::End if state.is_pending() && self.blocks.all[at].ops.last() == Some(&Op::EndFinally) => {
                let value = state.value()?.expr;
                printable(&value)?;
                state.emit(Stmt::Return(value), out)?;
                Ok(None)
            }
            Next::End if state.is_pending() => self.unstructured("a value that nothing uses", at),
            Next::End => Ok(None),
            Next::One(edge) => Ok(Some((edge.to, state))),
            Next::Branch { yes, no } => self.branch(at, yes, no, state, context, out),
            Next::For { .. } | Next::OrPop { .. } => self.unstructured("a branch that no statement makes", at),
        }
    }

    /// Determines how the statements continue at a block.
    fn arrive(&self, at: BlockId, state: &State<'a>, context: Context<'_>) -> Result<Arrival, Problem> {
        // A value on the stack is about to be returned.
        if state.is_pending() {
            return Ok(Arrival::Here);
        }
        if context.next == Some(at) {
            return Ok(Arrival::Done);
        }
        if let Some(looped) = context.looped
            && let Some(jump) = self.jump(at, state, looped, context)
        {
            return Ok(jump);
        }
        let leaves = context.region.is_some_and(|region| !self.blocks.regions.within(self.blocks.all[at].region, region));
        if leaves && !self.returns_constant(at) && !self.is_way_out(at, context) {
            return self.unstructured("a second way out of a region", at);
        }
        if self.written[at] && !self.may_repeat(at) && !self.only_unwinds(at) {
            return self.unstructured("a jump into another branch", at);
        }
        Ok(Arrival::Here)
    }

    /// Returns `continue` or `break`, if that is how control reaches a block.
    fn jump(&self, at: BlockId, state: &State<'a>, looped: &Loop<'_>, context: Context<'_>) -> Option<Arrival> {
        if looped.header == at {
            return Some(Arrival::Jump(Stmt::Continue));
        }
        if looped.end.get() == Some(at) {
            return Some(Arrival::Jump(Stmt::Break));
        }
        // If the iterator is gone, only the loop's end can follow; if it is not, the loop has not been left.
        let gone = state.stack.len() < looped.depth;
        let ends = gone && !self.returns_constant(at) && !self.only_unwinds(at);
        // Cases that leave the loop belong to their `match`.
        let is_case = state.stack.last().is_some_and(|slot| slot.expr == Expr::Marker(Marker::Subject));
        let behind = (gone || !looped.iterates) && !is_case && self.is_behind(looped, at);
        if looped.end.get().is_none() && (ends || behind) && !self.is_inside(at, looped, context) {
            looped.end.set(Some(at));
            return Some(Arrival::Jump(Stmt::Break));
        }
        None
    }

    /// Returns true if a block is in a region entered within the loop: then it is not after the loop.
    fn is_inside(&self, at: BlockId, looped: &Loop<'_>, context: Context<'_>) -> bool {
        let entered = self.blocks.regions.chain(context.region).take_while(|&region| Some(region) != looped.region);
        let region = self.blocks.all[at].region;
        entered.into_iter().any(|entered| self.blocks.regions.within(region, entered))
    }

    /// Returns true if a block only drops values that statements keep on the stack, and continues.
    pub fn only_unwinds(&self, at: BlockId) -> bool {
        let block = &self.blocks.all[at];
        let unwinds = |op: &Op<'_>| matches!(op, Op::Pop | Op::Swap(_) | Op::PopException | Op::EndWith | Op::EndFinally);
        !block.ops.is_empty() && block.ops.iter().all(unwinds) && block.next.one().is_some()
    }

    /// Returns the block after those that only unwind.
    pub fn unwound(&self, at: BlockId) -> BlockId {
        let mut at = at;
        for _ in 0..64 {
            match self.blocks.all[at].next.one() {
                Some(next) if self.only_unwinds(at) => at = next,
                _ => break,
            }
        }
        at
    }

    /// Returns true if a block leads, by unwinding only, to a jump or a return.
    pub fn is_way_out(&self, at: BlockId, context: Context<'_>) -> bool {
        let end = self.unwound(at);
        let jump = context.looped.is_some_and(|looped| {
            let behind = looped.end.get().is_none() && self.is_behind(looped, end) && !self.is_inside(end, looped, context);
            looped.header == end || looped.end.get() == Some(end) || behind
        });
        // Unwinding and returning in one block: `return` of a constant from within a loop.
        let ops = &self.blocks.all[end].ops;
        let returns = match &ops[..] {
            [unwinding @ .., Op::Push(Expr::Const(_)), Op::Return] if self.may_return => {
                unwinding.iter().all(|op| matches!(op, Op::Pop | Op::Swap(_) | Op::PopException | Op::EndWith | Op::EndFinally))
            }
            _ => false,
        };
        jump || returns
    }

    /// Returns true for `return` of a constant; a module or class does not have `return`.
    pub fn returns_constant(&self, at: BlockId) -> bool {
        self.may_return && matches!(self.blocks.all[at].ops[..], [Op::Push(Expr::Const(_)), Op::Return])
    }

    /// Returns true if a block may be written more than once: the compiler also copies short exits.
    fn may_repeat(&self, at: BlockId) -> bool {
        let block = &self.blocks.all[at];
        let short = self.may_return && block.next == Next::End && block.ops.len() <= 8;
        match &block.ops[..] {
            [rest @ .., Op::Return | Op::Raise(_)] => short && rest.iter().all(Op::is_expression),
            _ => false,
        }
    }

    /// Builds an `if`.
    fn branch(
        &mut self,
        at: BlockId,
        yes: Edge,
        no: Edge,
        mut state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        let mut value = state.value()?.expr;
        // The guard of a case whose pattern matches everything.
        if let Some(slot) = state.stack.pop_if(|slot| matches!(slot.expr, Expr::Case(_))) {
            printable(&value)?;
            value = Expr::Bool(true, Box::new(slot.expr), Box::new(value));
        }
        let case = cases::case(&value);
        if case.is_none() {
            printable(&value)?;
        }
        // If more cases follow, the subject stays on the stack until one matches.
        let kept = case.is_some_and(|case| case.keeps);
        let is_case = case.is_some();
        if state.is_pending() {
            return self.unstructured("a branch inside an expression", at);
        }
        // The branch that the compiler put first comes first in the source.
        let (first, second, test) = if yes.at <= no.at || is_case { (yes, no, value) } else { (no, yes, negate_test(value)) };
        let join = self.join(at, kept, context).filter(|&join| !(first.to == join && self.returns_constant(join)));
        let inner = Context { next: join.or(context.next), ..context };
        // A branch to where the statements continue anyway is not written.
        let mut behind = state.clone();
        if kept {
            behind.stack.pop_if(|slot| slot.expr == Expr::Marker(Marker::Subject));
        }
        if Some(first.to) == inner.next && (join.is_some() || Some(second.to) != context.next) {
            let statements = self.sequence(second.to, state.clone(), inner)?;
            out.push(Stmt::If(negate_test(test), statements, Vec::new()));
            return Ok(join.map(|join| (join, behind)));
        }
        let then = self.sequence(first.to, state.clone(), inner)?;
        if join.is_none() && leaves(&then) {
            out.push(Stmt::If(test, then, Vec::new()));
            return Ok(Some((second.to, state)));
        }
        let other = self.sequence(second.to, state, inner)?;
        out.push(Stmt::If(test, then, other));
        Ok(join.map(|join| (join, behind)))
    }

    /// Returns the block where the branches of a block meet. `kept`: the value at the top is only kept for the branches, and is gone there.
    fn join(&self, at: BlockId, kept: bool, context: Context<'_>) -> Option<BlockId> {
        // Branches do not meet at a block with a pending return value, so the stack depth must match.
        let block = &self.blocks.all[at];
        let depth = block.ops.iter().fold(i64::from(block.depth) - 1 - i64::from(kept), |depth, op| {
            let (pops, pushes) = op.effect();
            // The steps model the values that a `with` keeps as one.
            let others = i64::from(self.blocks.with_places) - 1;
            let others = match op {
                Op::EnterWith(_) => others,
                Op::EndWith => -others,
                _ => 0,
            };
            depth + pushes as i64 - pops as i64 + others
        });
        let candidates = self.order.iter().copied().filter(|&block| {
            let forward = |from: &&BlockId| self.rank[**from] < self.rank[block] && !self.dominators.dominates(block, **from);
            self.dominators.immediate(block) == Some(at)
                && i64::from(self.blocks.all[block].depth) == depth
                && Some(block) != context.next
                && self.predecessors[block].iter().filter(forward).count() > 1
                && !self.blocks.handlers.contains(&Some(block))
                && context.region.is_none_or(|region| self.blocks.regions.within(self.blocks.all[block].region, region))
                && context.looped.is_none_or(|looped| {
                    looped.header != block && looped.end.get() != Some(block) && (looped.members[block] || !looped.members[at])
                })
        });
        let all: Vec<BlockId> = candidates.collect();
        let real = all.iter().copied().rfind(|&block| !self.returns_constant(block));
        real.or(all.last().copied())
    }
}

/// Returns the opposite of a test.
pub(crate) fn negate_test(test: Expr<'_>) -> Expr<'_> {
    match test {
        Expr::Unary(Unary::Not, inner) => *inner,
        test => negate(test),
    }
}

/// Returns true if control never gets past the statements.
pub(crate) fn leaves(statements: &[Stmt<'_>]) -> bool {
    match statements.last() {
        Some(Stmt::Return(_) | Stmt::Raise(..) | Stmt::Break | Stmt::Continue) => true,
        Some(Stmt::If(_, then, other)) => leaves(then) && leaves(other),
        Some(Stmt::Try(statement)) => {
            let body = leaves(&statement.body) || leaves(&statement.orelse);
            leaves(&statement.finally) || (body && statement.handlers.iter().all(|handler| leaves(&handler.body)))
        }
        Some(Stmt::While(Expr::Const(Const::Bool(true)), body, _)) => !breaks(body),
        _ => false,
    }
}

/// Returns true if statements break out of the enclosing loop.
fn breaks(statements: &[Stmt<'_>]) -> bool {
    statements.iter().any(|statement| match statement {
        Stmt::Break => true,
        Stmt::If(_, then, other) => breaks(then) || breaks(other),
        Stmt::With { body, .. } => breaks(body),
        Stmt::Match(_, cases) => cases.iter().any(|case| breaks(&case.body)),
        Stmt::While(_, _, orelse) | Stmt::For { orelse, .. } => breaks(orelse),
        Stmt::Try(statement) => {
            breaks(&statement.body)
                || breaks(&statement.orelse)
                || breaks(&statement.finally)
                || statement.handlers.iter().any(|handler| breaks(&handler.body))
        }
        _ => false,
    })
}

/// Takes the target from the front of statements: the store of a placeholder that a loop, `with` or `except` left for it.
pub(crate) fn take_target<'a>(statements: &mut Vec<Stmt<'a>>, place: &Marker<'a>) -> Option<Expr<'a>> {
    match statements.first() {
        Some(Stmt::Assign(_, Expr::Marker(found))) if found == place => {}
        _ => return None,
    }
    match statements.remove(0) {
        Stmt::Assign(mut targets, _) => targets.pop(),
        _ => None,
    }
}
