//! `try` and `with`: regions of the exception table as statements.

use crate::{
    Problem,
    ast::{ExceptClause, Expr, Marker, Stmt, Try},
    blocks::BlockId,
    graph::Next,
    machine::{State, printable, run},
    op::Op,
    regions::{Kind, RegionId},
    structure::{After, Context, Structurer, take_target},
};

impl<'a> Structurer<'a, '_> {
    /// Builds the statement of a region that is entered at a block.
    pub fn region(
        &mut self,
        region: RegionId,
        at: BlockId,
        state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        if std::mem::replace(&mut self.opened[region], true) {
            return self.unstructured("a region that is entered twice", at);
        }
        match self.blocks.regions.0[region].kind {
            Kind::With => self.with(region, at, state, context, out),
            Kind::Finally => self.try_finally(region, at, state, context, out),
            Kind::Except => self.try_except(region, at, state, context, out),
            Kind::Star => self.unstructured("`except*`", at),
            Kind::Handling => self.unstructured("a jump into a handler", at),
        }
    }

    /// Returns the blocks outside a region that are reached from its blocks, from `start` on. Returns with pending values are left out.
    fn exits(&self, region: RegionId, start: BlockId, base: u32) -> Vec<BlockId> {
        let mut seen = vec![false; self.blocks.all.len()];
        let mut found = Vec::new();
        let mut open = vec![start];
        while let Some(block) = open.pop() {
            if std::mem::replace(&mut seen[block], true) {
                continue;
            }
            if self.blocks.regions.within(self.blocks.all[block].region, region) {
                open.extend(self.blocks.successors(block));
            } else if self.blocks.all[block].depth == base && !found.contains(&block) {
                found.push(block);
            }
        }
        // The region's own handler does not lead out.
        let handlers = &self.blocks.handlers;
        found.retain(|&block| !handlers.contains(&Some(block)));
        found
    }

    /// Selects, among several exits, the one that continues after the statement: it cannot be written as `break`, `continue` or `return`.
    fn falls_to(&self, exits: &[BlockId], context: Context<'_>) -> Result<Option<BlockId>, Problem> {
        let plain = |block: BlockId| !self.is_way_out(block, context) && Some(block) != context.next;
        let mut hard = exits.iter().copied().filter(|&block| plain(block));
        match (hard.next(), hard.next()) {
            (Some(block), None) => Ok(Some(block)),
            (Some(block), Some(_)) => self.unstructured("several ways out of a region", block),
            // All exits can be written as jumps; one of them need not be.
            (None, _) => {
                let next = exits.iter().copied().find(|&block| Some(block) == context.next);
                Ok(next.or(exits.iter().copied().max_by_key(|&block| (self.only_unwinds(block), self.blocks.all[block].at))))
            }
        }
    }

    fn with(
        &mut self,
        region: RegionId,
        at: BlockId,
        mut state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        let Some((manager, is_async)) = state.entered.pop() else { return self.unstructured("a `with` without a context manager", at) };
        let base = self.blocks.regions.0[region].handler.depth.saturating_sub(self.blocks.with_places);
        let exits = self.exits(region, at, base);
        // The blocks reached after a swallowed exception.
        let handler = self.blocks.handlers[region].ok_or(Problem::Malformed)?;
        let swallowed = match self.blocks.all[handler].region {
            Some(handling) => self.exits(handling, handler, base),
            None => Vec::new(),
        };
        let after = match swallowed[..] {
            [swallowed] if exits.contains(&swallowed) || exits.iter().all(|&exit| self.is_way_out(exit, context)) => Some(swallowed),
            [] => self.falls_to(&exits, context)?,
            _ => return self.unstructured("a `with` with several ends", at),
        };
        let inner = Context { next: after.or(context.next), region: Some(region), ..context };
        let mut body = self.body(at, state.clone(), inner)?;
        let target = take_target(&mut body, &Marker::Entered);
        out.push(Stmt::With { context: manager, target, body, is_async });
        state.stack.truncate(state.stack.len().saturating_sub(2));
        Ok(after.filter(|&after| Some(after) != context.next).map(|after| (after, state)))
    }

    fn try_finally(
        &mut self,
        region: RegionId,
        at: BlockId,
        state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        let base = self.blocks.regions.0[region].handler.depth;
        let exits = self.exits(region, at, base);
        let after = self.falls_to(&exits, context)?;
        let inner = Context { next: after.or(context.next), region: Some(region), ..context };
        let body = self.body(at, state.clone(), inner)?;
        let mut finally = self.finally_body(region, &state, context)?;
        if finally.is_empty() {
            finally.push(Stmt::Pass);
        }
        out.push(Stmt::Try(Box::new(Try { body, handlers: Vec::new(), orelse: Vec::new(), finally })));
        Ok(after.filter(|&after| Some(after) != context.next).map(|after| (after, state)))
    }

    /// Returns the stack at the start of a region's handler.
    fn raised(&self, region: RegionId, state: &State<'a>) -> State<'a> {
        let handler = self.blocks.regions.0[region].handler;
        let mut state = state.clone();
        // Here, too, the stack has only the entries below the region's depth.
        state.entered.clear();
        if handler.lasti {
            state.push(Expr::Marker(Marker::Offset));
        }
        state.push(Expr::Marker(Marker::Exception));
        state
    }

    fn finally_body(&mut self, region: RegionId, state: &State<'a>, context: Context<'_>) -> Result<Vec<Stmt<'a>>, Problem> {
        let handler = self.blocks.handlers[region].ok_or(Problem::Malformed)?;
        let handling = self.blocks.all[handler].region;
        let base = self.blocks.all[handler].depth + 1;
        let end = self.order.iter().copied().find(|&block| {
            let candidate = &self.blocks.all[block];
            candidate.ops == [Op::Reraise] && candidate.region == handling && candidate.depth == base
        });
        let inner = Context { next: end, region: handling, ..context };
        let state = self.raised(region, state);
        self.body(handler, state, inner)
    }

    fn try_except(
        &mut self,
        region: RegionId,
        at: BlockId,
        state: State<'a>,
        context: Context<'_>,
        out: &mut Vec<Stmt<'a>>,
    ) -> Result<After<'a>, Problem> {
        let base = self.blocks.regions.0[region].handler.depth;
        let exits = self.exits(region, at, base);
        let handler = self.blocks.handlers[region].ok_or(Problem::Malformed)?;
        let Some(handling) = self.blocks.all[handler].region else { return self.unstructured("a handler without an end", handler) };
        let handled = self.exits(handling, handler, base);
        let body_end = self.falls_to(&exits, context)?;
        let handled_end = self.falls_to(&handled, context)?;
        // If the handlers end by falling through to a block that is not otherwise an exit, the code after the body is its `else`.
        let must_fall = handled_end.filter(|&end| !self.is_way_out(end, context));
        let (orelse, after) = match (body_end, must_fall) {
            (Some(body), Some(handled)) if body != handled => (Some(body), Some(handled)),
            (Some(body), _) => (None, Some(body)),
            (None, _) => (None, handled_end),
        };
        let after = after.or(context.next);
        let inner = Context { next: orelse.or(after), region: Some(region), ..context };
        let body = self.body(at, state.clone(), inner)?;
        let handlers = self.clauses(handler, region, &state, Context { next: after, region: Some(handling), ..context })?;
        let orelse = match orelse {
            Some(start) => self.sequence(start, state.clone(), Context { next: after, ..context })?,
            None => Vec::new(),
        };
        out.push(Stmt::Try(Box::new(Try { body, handlers, orelse, finally: Vec::new() })));
        Ok(after.filter(|&after| Some(after) != context.next).map(|after| (after, state)))
    }

    /// Builds the `except` clauses.
    fn clauses(
        &mut self,
        handler: BlockId,
        region: RegionId,
        state: &State<'a>,
        context: Context<'_>,
    ) -> Result<Vec<ExceptClause<'a>>, Problem> {
        let mut clauses = Vec::new();
        let mut at = handler;
        let mut state = self.raised(region, state);
        loop {
            let block = &self.blocks.all[at];
            if block.ops == [Op::Reraise] {
                return Ok(clauses);
            }
            let typed = matches!(block.next, Next::Branch { .. }) && block.ops.last() == Some(&Op::CheckMatch);
            if !typed {
                let body = self.body(at, state, context)?;
                clauses.push(ExceptClause { kind: None, name: None, body });
                return Ok(clauses);
            }
            let Next::Branch { yes, no } = block.next else { return Err(Problem::Malformed) };
            self.written[at] = true;
            let mut statements = Vec::new();
            run(&self.blocks.all[at].ops.clone(), &mut state, self.declared, &mut statements)?;
            let Expr::Marker(Marker::Matches(kind)) = state.slot()?.expr else { return Err(Problem::Malformed) };
            printable(&kind)?;
            if !statements.is_empty() {
                return self.unstructured("statements between `except` clauses", at);
            }
            let mut body = self.sequence(yes.to, state.clone(), context)?;
            let name = take_target(&mut body, &Marker::Exception);
            clauses.push(ExceptClause { kind: Some(*kind), name, body });
            at = no.to;
        }
    }
}
