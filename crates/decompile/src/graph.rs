//! The graph of single steps: jumps are resolved; `await` and loops over iterators are folded into one step each.
//!
//! Edges are those of normal control flow. The target of exceptions is a property of each step, its [`Node::region`].

use dynamlir_bytecode::{Code, Facts, Instruction, Opcode, Operand, Position, Positions, SPECIAL_METHODS, StackDepths, ends_flow};

use crate::{
    Problem,
    ast::{Expr, Unary},
    lift::{Source, lift},
    op::{Keeps, Op, Scope},
    patterns,
    regions::{Finder, RegionId, Regions},
};

pub(crate) type NodeId = usize;

/// An edge to a successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub to: NodeId,
    /// The code unit of the first instruction on this path, even if it is a jump: it gives the order in the source.
    pub at: u32,
}

/// The successors of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Next {
    /// None: a return or a raise.
    End,
    One(Edge),
    /// Branches on the popped value.
    Branch {
        yes: Edge,
        no: Edge,
    },
    /// If the truth of the top is `keep_if`, it stays and control goes to `keep`; otherwise it is popped.
    OrPop {
        keep_if: bool,
        keep: Edge,
        drop: Edge,
    },
    /// A `for` over the iterator at the top: on `body`, the item is above it; on `exit`, the iterator is gone.
    For {
        body: Edge,
        exit: Edge,
        is_async: bool,
    },
}

impl Next {
    /// Returns the edges; for a branch, the one taken if the test is true comes first.
    pub fn edges(&self) -> impl Iterator<Item = Edge> + use<> {
        let (first, second) = match *self {
            Self::End => (None, None),
            Self::One(edge) => (Some(edge), None),
            Self::Branch { yes, no } => (Some(yes), Some(no)),
            Self::OrPop { keep, drop, .. } => (Some(keep), Some(drop)),
            Self::For { body, exit, .. } => (Some(body), Some(exit)),
        };
        first.into_iter().chain(second)
    }

    pub fn edges_mut(&mut self) -> impl Iterator<Item = &mut Edge> {
        let (first, second) = match self {
            Self::End => (None, None),
            Self::One(edge) => (Some(edge), None),
            Self::Branch { yes, no } => (Some(yes), Some(no)),
            Self::OrPop { keep, drop, .. } => (Some(keep), Some(drop)),
            Self::For { body, exit, .. } => (Some(body), Some(exit)),
        };
        first.into_iter().chain(second)
    }

    /// Returns the only successor, if there is exactly one.
    pub fn one(&self) -> Option<NodeId> {
        if let Self::One(edge) = self { Some(edge.to) } else { None }
    }
}

/// A step with its position.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub op: Op<'a>,
    /// Equal for equal steps: opcode, argument, index among the instruction's steps.
    pub key: (Opcode, u32, u8),
    pub unit: u32,
    pub position: Position,
    /// The number of stack entries before it.
    pub depth: u32,
    /// The innermost region that it is in, if any.
    pub region: Option<RegionId>,
    /// The variable of the enclosing `except … as`.
    pub bound: Option<&'a str>,
    pub next: Next,
}

/// The graph of a code object.
#[derive(Debug)]
pub(crate) struct StepGraph<'a> {
    /// The number of values that a `with` block, and that a loop, keep on the stack.
    pub with_places: u32,
    pub iterator_places: u32,
    pub nodes: Vec<Node<'a>>,
    pub entry: NodeId,
    pub regions: Regions,
    /// The first node of each region's handler.
    pub handlers: Vec<NodeId>,
}

/// The successors of an instruction, by index.
#[derive(Clone, Copy, Debug)]
enum Control {
    End,
    To(usize),
    Branch {
        yes: usize,
        no: usize,
    },
    OrPop {
        keep_if: bool,
        keep: usize,
        drop: usize,
    },
    For {
        body: usize,
        exit: usize,
        is_async: bool,
    },
    /// Like a branch. The remaining steps of the last instruction of a case run if it matches.
    Case {
        yes: usize,
        no: Option<usize>,
    },
}

/// Builds the graph.
pub(crate) fn build<'a>(source: &Source<'a>, code: &Code, positions: &Positions, depths: &StackDepths) -> Result<StepGraph<'a>, Problem> {
    let mut finder = Finder::new(source, code, depths);
    let mut nodes: Vec<Node<'a>> = Vec::new();
    // For each instruction its first node, if it has any, and its successors.
    let mut firsts: Vec<Option<NodeId>> = vec![None; code.instructions.len()];
    let mut controls = vec![Control::End; code.instructions.len()];
    let mut lasts: Vec<(NodeId, usize)> = Vec::new();
    let mut cases = Cases::default();
    for (at, instruction) in code.instructions.iter().enumerate() {
        let Some(mut depth) = depths.before[at] else { continue };
        // The namespace that it searches first was pushed by an instruction that does not become a step.
        if matches!(instruction.opcode, Opcode::LoadFromDictOrGlobals | Opcode::LoadFromDictOrDeref) {
            depth = depth.saturating_sub(1);
        }
        let mut ops = Vec::new();
        controls[at] = match cases.at(source, code, depths, at, &mut ops) {
            Some(case) => case,
            None => control(source, code, at, &mut ops)?,
        };
        // For an inverted jump, the position of its test determines the region.
        let turned =
            ops.last() == Some(&Op::Branch) && code.version.facts().turns_jumps && instruction.opcode.name().starts_with("POP_JUMP");
        let tested = if turned && at > 0 && depths.before[at - 1].is_some() { &code.instructions[at - 1] } else { instruction };
        let (region, bound) = finder.at(tested.unit)?;
        let slot = |name: &str| source.slots.iter().position(|slot| *slot == name).map_or(u32::MAX, |slot| slot as u32);
        let local = instruction.opcode.operand(code.version) == Some(Operand::Local);
        let position = positions.at(instruction.unit);
        for (step, op) in ops.into_iter().enumerate() {
            let (pops, pushes) = op.effect();
            let unit = instruction.unit;
            // A branch is identified by its test, regardless of the jump's direction.
            let key = match op {
                Op::Branch => (Opcode::PopJumpIfTrue, 0, 0),
                Op::IsNone => (Opcode::PopJumpIfNone, 0, 0),
                // LOAD_FAST, with or without its check, or half of a pair.
                Op::Push(Expr::Name(name)) if local => (Opcode::LoadFast, slot(name), 0),
                Op::Store(Scope::Local, name) if local => (Opcode::StoreFast, slot(name), 0),
                _ => (instruction.opcode, instruction.arg, step as u8),
            };
            // Half of a pair has the source position of the other half.
            let lost = key.0 == Opcode::LoadFast && code.version.facts().pairs_locals;
            let position = if lost { Position::default() } else { position };
            let node = Node { op, key, unit, position, depth, region, bound, next: Next::One(Edge { to: nodes.len() + 1, at: unit }) };
            depth = (depth + pushes as u32).saturating_sub(pops as u32);
            firsts[at] = firsts[at].or(Some(nodes.len()));
            nodes.push(node);
        }
        if firsts[at].is_some() {
            lasts.push((nodes.len() - 1, at));
        }
    }
    let mut resolver = Resolver { code, positions, firsts, controls, nodes };
    for (node, at) in lasts {
        resolver.nodes[node].next = match resolver.controls[at] {
            Control::End => Next::End,
            Control::To(to) => Next::One(resolver.edge(to)),
            Control::Branch { yes, no } => Next::Branch { yes: resolver.edge(yes), no: resolver.edge(no) },
            Control::OrPop { keep_if, keep, drop } => Next::OrPop { keep_if, keep: resolver.edge(keep), drop: resolver.edge(drop) },
            Control::For { body, exit, is_async } => Next::For { body: resolver.edge(body), exit: resolver.edge(exit), is_async },
            Control::Case { yes, no } => {
                let yes = resolver.case(node, yes);
                match no {
                    Some(no) => Next::Branch { yes, no: resolver.edge(no) },
                    None => Next::One(yes),
                }
            }
        };
    }
    let entry = resolver.edge(0).to;
    // Finding a region may also find the regions around it.
    let handlers = finder.regions.0.iter().map(|region| resolver.edge(region.entry).to).collect();
    let Facts { with_places, iterator_places, .. } = *code.version.facts();
    Ok(StepGraph { with_places, iterator_places, nodes: resolver.nodes, entry, regions: finder.regions, handlers })
}

/// Skips instructions without steps, up to the next step.
struct Resolver<'a, 'b> {
    code: &'b Code,
    positions: &'b Positions,
    firsts: Vec<Option<NodeId>>,
    controls: Vec<Control>,
    nodes: Vec<Node<'a>>,
}

/// The cases found so far.
#[derive(Default)]
struct Cases {
    /// The successors of cases other than the last.
    next: Vec<usize>,
}

impl Cases {
    /// Returns the case that starts at an instruction.
    fn at<'a>(&mut self, source: &Source<'a>, code: &Code, depths: &StackDepths, at: usize, ops: &mut Vec<Op<'a>>) -> Option<Control> {
        let follows = self.next.contains(&at);
        let opcode = |at: usize| code.instructions.get(at).map(|instruction| instruction.opcode);
        let copies = opcode(at) == Some(Opcode::Copy);
        // The class is loaded between the subject and its test.
        let asks = || {
            let path = (at + 1..code.instructions.len()).take_while(|&at| opcode(at) == Some(Opcode::LoadAttr)).count();
            let loads = matches!(
                opcode(at),
                Some(Opcode::LoadGlobal | Opcode::LoadName | Opcode::LoadFast | Opcode::LoadFastBorrow | Opcode::LoadDeref)
            );
            loads && opcode(at + path + 1) == Some(Opcode::LoadConst) && opcode(at + path + 2) == Some(Opcode::MatchClass)
        };
        if !(follows || copies || matches!(opcode(at), Some(Opcode::MatchSequence | Opcode::MatchMapping)) || asks()) {
            return None;
        }
        if copies && called_as_ever(source, code, at).is_some() {
            return None;
        }
        let find = |last: bool| {
            let found = patterns::find(source, code, depths, at, last)?;
            // Without a test it may not be a case, unless another case precedes it.
            (follows || found.failed.is_some()).then_some((found, last))
        };
        let (found, last) = find(false).or_else(|| find(true))?;
        let (yes, no) = (found.matched, found.failed);
        let keeps = match (last, no) {
            (false, _) => Keeps::Subject,
            (true, Some(_)) => Keeps::Nothing,
            (true, None) => Keeps::NoResult,
        };
        self.next.extend(no.filter(|_| !last));
        ops.push(Op::Case(Box::new(found), keeps));
        Some(Control::Case { yes, no })
    }
}

impl Resolver<'_, '_> {
    /// Returns the edge taken if a case matches, through the remaining steps of its last instruction.
    fn case(&mut self, node: NodeId, yes: usize) -> Edge {
        let mut edge = self.edge(yes);
        let case = self.nodes[node].clone();
        let Op::Case(found, _) = case.op else { return edge };
        for (step, op) in found.rest.into_iter().enumerate().rev() {
            let to = self.nodes.len();
            let key = (case.key.0, case.key.1, 64 + step as u8);
            self.nodes.push(Node { op, key, next: Next::One(edge), ..case });
            edge = Edge { to, at: edge.at };
        }
        edge
    }

    fn edge(&mut self, from: usize) -> Edge {
        let unit = self.code.instructions[from].unit;
        let mut at = from;
        for _ in 0..=self.code.instructions.len() {
            match (self.firsts[at], self.controls[at]) {
                (Some(node), _) => return Edge { to: node, at: unit },
                (None, Control::To(next)) => at = next,
                (None, _) => break,
            }
        }
        // A cycle of jumps: `while True: pass`. Or the end of the code, which valid code does not reach.
        let to = self.nodes.len();
        let stuck = &self.code.instructions[at];
        let edge = Edge { to, at: stuck.unit };
        let next = if matches!(self.controls[at], Control::To(_)) { Next::One(edge) } else { Next::End };
        self.nodes.push(Node {
            op: Op::Nothing,
            key: (Opcode::Nop, stuck.unit, 1),
            unit: stuck.unit,
            position: self.positions.at(stuck.unit),
            depth: 0,
            region: None,
            bound: None,
            next,
        });
        self.firsts[at] = Some(to);
        Edge { to, at: unit }
    }
}

/// Returns the steps of the instruction at `at`, or of the pattern that starts there, and its successors.
fn control<'a>(source: &Source<'a>, code: &Code, at: usize, ops: &mut Vec<Op<'a>>) -> Result<Control, Problem> {
    let instruction = &code.instructions[at];
    let index = |unit: u32| code.index[unit as usize] as usize;
    let target = instruction.target.map(index);
    let following = at + 1;
    if following >= code.instructions.len() && !ends_flow(instruction.opcode) {
        return Err(Problem::Malformed);
    }
    let jumps = matches!(instruction.opcode.operand(code.version), Some(Operand::Forward | Operand::Backward));
    Ok(match (instruction.opcode, target) {
        (Opcode::GetAwaitable, _) if awaited(source, code, following).is_some() => {
            ops.push(Op::Await);
            Control::To(awaited(source, code, following).ok_or(Problem::Malformed)?)
        }
        // From 3.15 on, the argument of GET_ITER replaces GET_YIELD_FROM_ITER.
        (Opcode::GetYieldFromIter | Opcode::GetIter, _) if awaited(source, code, following).is_some() => {
            ops.push(Op::YieldFrom);
            Control::To(awaited(source, code, following).ok_or(Problem::Malformed)?)
        }
        (Opcode::GetAnext, _) => {
            let body = awaited(source, code, following).ok_or(Problem::Unstructured("async for", instruction.unit))?;
            let handler = code.handler_for(instruction.unit).ok_or(Problem::Malformed)?;
            ops.push(Op::Branch);
            let end = index(handler.target);
            if code.instructions[end].opcode != Opcode::EndAsyncFor {
                return Err(Problem::Unstructured("async for", instruction.unit));
            }
            Control::For { body, exit: end + 1, is_async: true }
        }
        (Opcode::Copy, _) if or_pop(code, at).is_some() => {
            ops.push(Op::Branch);
            or_pop(code, at).ok_or(Problem::Malformed)?
        }
        (Opcode::Copy, _) if let Some(call) = called_as_ever(source, code, at) => Control::To(call),
        (Opcode::Copy, _) if let Some((is_async, next)) = entered(code, at) => {
            ops.push(Op::EnterWith(is_async));
            Control::To(next)
        }
        // Moves a return value below the two values that a `with` block keeps; the steps model these as one.
        (Opcode::Swap, _) if instruction.arg == 3 && leaves(source, code, following) => Control::To(following),
        (Opcode::ForIter, Some(exit)) => {
            ops.push(Op::Branch);
            let mut exit = exit;
            for &opcode in code.version.facts().loop_end {
                if exit > 0 && code.instructions[exit].opcode == opcode {
                    exit += 1;
                }
            }
            Control::For { body: following, exit, is_async: false }
        }
        (Opcode::JumpIfFalseOrPop | Opcode::JumpIfTrueOrPop, Some(keep)) => {
            ops.push(Op::Branch);
            Control::OrPop { keep_if: instruction.opcode == Opcode::JumpIfTrueOrPop, keep, drop: following }
        }
        (opcode, Some(target)) if opcode.name().starts_with("POP_JUMP") => {
            if opcode.name().ends_with("NONE") {
                ops.push(Op::IsNone);
            }
            ops.push(Op::Branch);
            let name = opcode.name();
            if name.ends_with("IF_TRUE") || name.ends_with("IF_NONE") {
                Control::Branch { yes: target, no: following }
            } else {
                Control::Branch { yes: following, no: target }
            }
        }
        (_, Some(target)) if jumps && ends_flow(instruction.opcode) => Control::To(target),
        (opcode, _) if jumps => {
            ops.push(Op::Unsupported(opcode.name()));
            Control::End
        }
        // If it is for neither a branch nor a `not`, it is a compiled `not not`.
        (Opcode::ToBool, _) => {
            let next = code.instructions[following].opcode;
            if !matches!(next, Opcode::PopJumpIfTrue | Opcode::PopJumpIfFalse | Opcode::UnaryNot) {
                ops.extend([Op::Unary(Unary::Not), Op::Unary(Unary::Not)]);
            }
            Control::To(following)
        }
        (opcode, _) => {
            lift(source, instruction, ops)?;
            if ends_flow(opcode) { Control::End } else { Control::To(following) }
        }
    })
}

/// Matches `LOAD_CONST None; SEND; YIELD_VALUE; RESUME; JUMP_BACKWARD_NO_INTERRUPT`; returns the instruction where the result is available.
/// From 3.15 on, a NULL may come first: an awaited object has as many stack slots as a loop's iterator.
fn awaited(source: &Source<'_>, code: &Code, at: usize) -> Option<usize> {
    let at = at + usize::from(code.instructions.get(at)?.opcode == Opcode::PushNull);
    let [load, send, give, resume, back] = code.instructions.get(at..at + 5)? else { return None };
    let fits = source.is_none(load)
        && send.opcode == Opcode::Send
        && give.opcode == Opcode::YieldValue
        && resume.opcode == Opcode::Resume
        && back.opcode == Opcode::JumpBackwardNoInterrupt
        && back.target == Some(send.start);
    let end = *code.index.get(send.target? as usize)? as usize;
    fits.then_some(if code.instructions[end].opcode == Opcode::EndSend { end + 1 } else { end })
}

/// Matches `COPY 1; LOAD_SPECIAL __exit__; SWAP 2; SWAP 3; LOAD_SPECIAL __enter__; CALL 0`, which replaced `BEFORE_WITH` in 3.14. Returns
/// true if it is asynchronous, and the instruction after it.
fn entered(code: &Code, at: usize) -> Option<(bool, usize)> {
    let [_, exit, swap, other, enter, call] = code.instructions.get(at..at + 6)? else { return None };
    let method = |instruction: &Instruction| {
        (instruction.opcode == Opcode::LoadSpecial).then(|| SPECIAL_METHODS.get(instruction.arg as usize).copied()).flatten()
    };
    let swaps = [swap, other].map(|swap| (swap.opcode, swap.arg)) == [(Opcode::Swap, 2), (Opcode::Swap, 3)];
    match (method(exit)?, method(enter)?) {
        _ if !swaps || (call.opcode, call.arg) != (Opcode::Call, 0) => None,
        ("__exit__", "__enter__") => Some((false, at + 6)),
        ("__aexit__", "__aenter__") => Some((true, at + 6)),
        _ => None,
    }
}

/// Matches `COPY 1; LOAD_COMMON_CONSTANT any; IS_OP; POP_JUMP_IF_FALSE`, which precedes an inlined loop for `any` of a generator. Returns
/// the position of the call that is made if the name has another meaning.
fn called_as_ever(source: &Source<'_>, code: &Code, at: usize) -> Option<usize> {
    let [_, load, is, jump] = code.instructions.get(at..at + 4)? else { return None };
    let opcodes = [load, is, jump].map(|instruction| instruction.opcode);
    // The other constants are values that a `match` compares with.
    let is_callable = matches!(source.common_constant(load.arg), Some("any" | "all" | "tuple" | "list" | "set"));
    let fits = opcodes == [Opcode::LoadCommonConstant, Opcode::IsOp, Opcode::PopJumpIfFalse] && is.arg == 0 && is_callable;
    Some(*code.index.get(jump.target.filter(|_| fits)? as usize)? as usize)
}

/// Returns true for `SWAP 2` and three loads of None, which leave a `with` from 3.14 on.
fn leaves(source: &Source<'_>, code: &Code, at: usize) -> bool {
    let Some([swap, rest @ ..]) = code.instructions.get(at..at + 4) else { return false };
    (swap.opcode, swap.arg) == (Opcode::Swap, 2) && rest.iter().all(|load| source.is_none(load))
}

/// Matches `COPY 1; POP_JUMP_IF_…; POP_TOP`, which replaced 3.11's `JUMP_IF_…_OR_POP`.
fn or_pop(code: &Code, at: usize) -> Option<Control> {
    let first = &code.instructions[at];
    let mut jump = at + 1;
    if code.instructions.get(jump)?.opcode == Opcode::ToBool {
        jump += 1;
    }
    let branch = code.instructions.get(jump)?;
    let mut pop = jump + 1;
    while matches!(code.instructions.get(pop)?.opcode, Opcode::Nop | Opcode::NotTaken) {
        pop += 1;
    }
    let keep_if = match branch.opcode {
        Opcode::PopJumpIfTrue => true,
        Opcode::PopJumpIfFalse => false,
        _ => return None,
    };
    let fits = first.arg == 1 && code.instructions[pop].opcode == Opcode::PopTop;
    let keep = *code.index.get(branch.target? as usize)? as usize;
    let drop = pop + 1;
    // From 3.14 on, an `and` jumps to the end of the enclosing `or`, which drops the kept value: so it is only tested.
    let is_dropped = code.instructions[keep].opcode == Opcode::PopTop && keep > 0 && code.instructions[keep - 1].opcode == Opcode::NotTaken;
    fits.then_some(match (is_dropped, keep_if) {
        (true, true) => Control::Branch { yes: keep + 1, no: drop },
        (true, false) => Control::Branch { yes: drop, no: keep + 1 },
        (false, _) => Control::OrPop { keep_if, keep, drop },
    })
}
