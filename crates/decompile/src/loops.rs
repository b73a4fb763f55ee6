//! `for` and `while`.
//!
//! The blocks that lead back to a loop's head belong to the loop. The target of `break` is found at the first exit that the loop's own end
//! does not lead to, or that is after the loop in the code.

use std::cell::Cell;

use dynamlir_bytecode::Const;

use crate::{
    Problem,
    ast::{Expr, Marker, Stmt},
    blocks::BlockId,
    graph::{Edge, Next},
    machine::{State, printable},
    reduce::is_expression,
    regions::{Kind, RegionId},
    structure::{After, Context, Structurer, negate_test, take_target},
};

/// `while True`
static TRUE: Const = Const::Bool(true);

/// A loop under construction.
pub(crate) struct Loop<'c> {
    pub header: BlockId,
    /// For each block, true if it leads back to the head.
    pub members: Vec<bool>,
    /// The successor of the loop when it ends without `break`.
    pub exit: Option<BlockId>,
    /// Code after this unit is after the loop.
    pub limit: u32,
    /// The target of `break`, once known.
    pub end: Cell<Option<BlockId>>,
    /// The region that the loop is in, and the stack depth in its body.
    pub region: Option<RegionId>,
    pub depth: usize,
    /// True if it is a `for`.
    pub iterates: bool,
    /// The block after the loop's statement, and the enclosing loop.
    next: Option<BlockId>,
    around: Option<&'c Loop<'c>>,
}

impl<'a> Structurer<'a, '_> {
    /// Returns true if a block dominated by this one leads back to it.
    pub fn is_header(&self, block: BlockId) -> bool {
        self.predecessors[block].iter().any(|&from| self.dominators.dominates(block, from))
    }

    /// Returns the blocks that lead back to a head.
    fn members(&self, header: BlockId) -> Vec<bool> {
        let mut members = vec![false; self.blocks.all.len()];
        members[header] = true;
        let back = self.predecessors[header].iter().copied().filter(|&from| self.dominators.dominates(header, from));
        let mut open: Vec<BlockId> = back.collect();
        while let Some(block) = open.pop() {
            if !std::mem::replace(&mut members[block], true) {
                open.extend(&self.predecessors[block]);
            }
        }
        members
    }

    /// Returns true if the loop at `header` encloses the region that its head is in: some of its blocks are outside.
    pub fn loop_is_outside(&self, header: BlockId, region: RegionId) -> bool {
        let members = self.members(header);
        let inside = |block: BlockId| self.blocks.regions.within(self.blocks.all[block].region, region);
        (0..members.len()).any(|block| members[block] && !inside(block))
    }

    /// Returns true if a block is after a loop.
    pub fn is_behind(&self, looped: &Loop<'_>, block: BlockId) -> bool {
        if looped.members[block] {
            return false;
        }
        if looped.exit == Some(block) || looped.next == Some(block) {
            return true;
        }
        let mut around = looped.around;
        while let Some(outer) = around {
            if outer.header == block || outer.end.get() == Some(block) || outer.next == Some(block) {
                return true;
            }
            around = outer.around;
        }
        self.blocks.all[block].at > looped.limit && self.in_main_line(block)
    }

    /// Returns true if a block is not part of an exception handler. From 3.12 on, handlers are after all other code.
    fn in_main_line(&self, block: BlockId) -> bool {
        self.blocks.regions.chain(self.blocks.all[block].region).all(|region| self.blocks.regions.0[region].kind != Kind::Handling)
    }

    /// Builds a loop statement.
    pub fn looped(
        &mut self,
        header: BlockId,
        state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        let members = self.members(header);
        let own = (0..members.len()).filter(|&block| members[block] && self.in_main_line(block));
        let last = own.map(|block| self.blocks.all[block].last).max().unwrap_or(0);
        // The stack in the body of a `for` includes the iterator, which is still an expression in `state`.
        let depth = state.stack.len() - usize::from(self.blocks.has_place(header)).min(state.stack.len());
        let iterates = matches!(self.blocks.all[header].next, Next::For { .. });
        let looped = |exit: Option<Edge>| Loop {
            header,
            members: members.clone(),
            exit: exit.map(|edge| edge.to),
            limit: exit.map_or(last, |edge| edge.at.max(last)),
            end: Cell::new(None),
            region: context.region,
            depth,
            iterates,
            next: context.next,
            around: context.looped,
        };
        match self.blocks.all[header].next {
            Next::For { body, exit, is_async } => self.for_loop(&looped(Some(exit)), (body, exit), is_async, state, context, out),
            Next::Branch { yes, no } => {
                let test = is_expression(&self.blocks.all[header].ops, 0);
                let leaves = |edge: Edge| !members[edge.to] && edge.at > last;
                match (members[yes.to], members[no.to]) {
                    (true, false) if test && leaves(no) => self.while_loop(&looped(Some(no)), (yes, no), true, state, context, out),
                    (false, true) if test && leaves(yes) => self.while_loop(&looped(Some(yes)), (no, yes), false, state, context, out),
                    _ => self.endless_loop(&looped(None), state, context, out),
                }
            }
            _ => self.endless_loop(&looped(None), state, context, out),
        }
    }

    fn for_loop(
        &mut self,
        looped: &Loop<'_>,
        (body, exit): (Edge, Edge),
        is_async: bool,
        mut state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        let has_place = self.blocks.has_place(looped.header);
        if has_place && state.slot()?.expr != Expr::Marker(Marker::Place) {
            return self.unstructured("a loop over something else than an iterator", looped.header);
        }
        let iter = match state.value()?.expr {
            Expr::Iterated(iter) => *iter,
            // The function of a comprehension receives an iterator.
            name @ Expr::Name(".0") => name,
            _ => return self.unstructured("a loop over something else than an iterator", looped.header),
        };
        if iter != Expr::Name(".0") && iter != Expr::Null {
            printable(&iter)?;
        }
        let mut inside = state.clone();
        inside.push(Expr::Marker(Marker::Iterator));
        if has_place {
            inside.push(Expr::Marker(Marker::Place));
        }
        inside.push(Expr::Marker(Marker::Item));
        let mut body = self.sequence(body.to, inside, within(looped, context))?;
        if body == [Stmt::Append(Expr::Marker(Marker::Item), None)] && looped.end.get().is_none() && !is_async {
            out.push(Stmt::Append(Expr::Starred(Box::new(iter)), None));
            return Ok(Some((exit.to, state)));
        }
        let Some(target) = take_target(&mut body, &Marker::Item) else {
            return self.unstructured("a loop without a target", looped.header);
        };
        let (orelse, after) = self.behind(looped, exit, state, context)?;
        out.push(Stmt::For { target, iter, body, orelse, is_async });
        Ok(after)
    }

    fn while_loop(
        &mut self,
        looped: &Loop<'_>,
        (body, exit): (Edge, Edge),
        holds: bool,
        mut state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        self.written[looped.header] = true;
        let ops = self.blocks.all[looped.header].ops.clone();
        let mut none = Vec::new();
        crate::machine::run(&ops, &mut state, self.declared, &mut none)?;
        let value = state.value()?.expr;
        printable(&value)?;
        if state.is_pending() {
            return self.unstructured("a loop inside an expression", looped.header);
        }
        let test = if holds { value } else { negate_test(value) };
        let body = self.sequence(body.to, state.clone(), within(looped, context))?;
        let (orelse, after) = self.behind(looped, exit, state, context)?;
        out.push(Stmt::While(test, body, orelse));
        Ok(after)
    }

    fn endless_loop(
        &mut self,
        looped: &Loop<'_>,
        state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        if state.is_pending() {
            return self.unstructured("a loop inside an expression", looped.header);
        }
        let body = self.body(looped.header, state.clone(), within(looped, context))?;
        out.push(Stmt::While(Expr::Const(&TRUE), body, Vec::new()));
        Ok(looped.end.get().map(|end| (end, state)))
    }

    /// Builds the `else` of a loop, and returns the position after the loop.
    fn behind(
        &mut self,
        looped: &Loop<'_>,
        exit: Edge,
        state: State<'a>,
        context: Context<'_>,
    ) -> Result<(Vec<Stmt<'a>>, After<'a>), Problem> {
        match looped.end.get() {
            Some(end) if end != exit.to => {
                let orelse = self.sequence(exit.to, state.clone(), Context { next: Some(end), ..context })?;
                Ok((orelse, Some((end, state))))
            }
            _ => Ok((Vec::new(), Some((exit.to, state)))),
        }
    }

    /// Builds a comprehension's loop, without the code that follows it.
    pub fn only_loop(&mut self, header: BlockId, state: State<'a>) -> Result<Stmt<'a>, Problem> {
        let mut out = Vec::new();
        let region = self.blocks.all[header].region;
        let context = Context { next: None, looped: None, region, depth: 0 };
        self.looped(header, state, context, &mut out)?;
        match (out.pop(), out.is_empty()) {
            (Some(statement), true) => Ok(statement),
            _ => self.unstructured("a comprehension with statements", header),
        }
    }
}

/// Returns the context for the body of a loop.
fn within<'c>(looped: &'c Loop<'c>, context: Context<'c>) -> Context<'c> {
    Context { next: Some(looped.header), looped: Some(looped), ..context }
}
