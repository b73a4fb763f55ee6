//! Lowers a plan to flat tables: every register becomes a root and a distance, every launch a row of addresses.

use std::fmt;

use smallvec::SmallVec;

use crate::check::Check;
use crate::outputs::{Making, check_made_from, making};
use crate::plan::{Base, Output, Plan, Reg, Step};
use crate::reuse::{Fact, Facts};
use crate::verify::Need;
use crate::{DType, Device, Layout, bases, bounds, effects};

/// The reason that a plan cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError(pub(crate) String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid plan: {}", self.0)
    }
}

impl std::error::Error for PlanError {}

/// The memory that contains a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Workspace,
    Input(usize),
    /// A tensor created during the run.
    Slot(usize),
}

/// A register: its base is `base` bytes after the root's address (workspace start, or element 0 of a tensor).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorPlace {
    pub root: Root,
    pub base: i64,
    pub layout: Layout,
}

impl TensorPlace {
    /// Bytes from the root's address to element 0.
    pub fn first(&self) -> i64 {
        self.base + self.layout.first_byte()
    }
}

/// A register while a plan is lowered: its layout is the plan's, and its byte range is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'p> {
    pub root: Root,
    pub base: i64,
    pub layout: &'p Layout,
    /// The range of bytes touched, from the root's address.
    pub span: Option<(i64, i64)>,
    /// True if several indices may refer to one element; None if unknown.
    pub repeats: Option<bool>,
}

impl<'p> Seen<'p> {
    /// Creates it; returns an error if the layout is implausible.
    pub fn new(root: Root, base: i64, layout: &'p Layout, known: Option<Fact>) -> Result<Self, PlanError> {
        let span = match known {
            Some(fact) => fact.span,
            None => layout.checked_span().map_err(PlanError)?,
        };
        let first = base + layout.first_byte();
        let span = span.map(|(low, high)| (first + low, first + high));
        Ok(Self { root, base, layout, span, repeats: known.map(|fact| fact.repeats) })
    }

    /// Creates it for a whole tensor: the root's address is that of its element 0.
    fn tensor(root: Root, layout: &'p Layout, known: Option<Fact>) -> Result<Self, PlanError> {
        let seen = Self::new(root, 0, layout, known)?;
        torchlike(layout)?;
        let first = layout.first_byte();
        Ok(Self { base: -first, span: seen.span.map(|(low, high)| (low - first, high - first)), ..seen })
    }

    /// Bytes from the root's address to element 0.
    pub fn first(&self) -> i64 {
        self.base + self.layout.first_byte()
    }
}

/// The place of a tensor object for an extern call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Input(usize),
    Slot(usize),
    /// An entry of `Program::handles`.
    Handle(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExternStep {
    pub call: usize,
    pub operands: Vec<Source>,
    pub operand_types: Vec<DType>,
    pub outs: Vec<Source>,
    /// One slot per result; empty where results are written into `outs` or dropped.
    pub results: Vec<Option<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// The kernel's row starts at `row` in the address table.
    Launch {
        kernel: usize,
        row: usize,
    },
    Allocate {
        slot: usize,
    },
    Extern {
        step: usize,
    },
    /// An entry of `Program::checks`.
    CheckRange {
        check: usize,
    },
    /// This tensor is no longer needed.
    Release {
        slot: usize,
    },
    Commit,
}

/// An entry of the address table: its index, and either its distance in bytes from the address of its root, or its value.
pub(crate) type Bind = (usize, i64);

/// Entries that depend on one tensor: usually it is an argument of one or two launches.
pub(crate) type Binds = SmallVec<[Bind; 2]>;

#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The location of all memory.
    pub device: Device,
    pub ops: Vec<Op>,
    pub externs: Vec<ExternStep>,
    pub checks: Vec<Check>,
    /// Length of the address table.
    pub addresses: usize,
    /// Entries of the address table that are sizes, stored as values.
    pub sizes: Vec<Bind>,
    pub workspace_binds: Vec<Bind>,
    /// Each with the input on which it depends.
    pub input_binds: Vec<(usize, Bind)>,
    pub slot_binds: Vec<Binds>,
    /// The layout of each slot's tensor.
    pub slots: Vec<Layout>,
    /// Tensor objects over parts of a root, created once and kept.
    pub handles: Vec<TensorPlace>,
    /// The range that views reach beyond the input's own bytes, from its element 0; checked against the storage.
    pub input_reach: Vec<Option<(i64, i64)>>,
    /// The checks of each input's memory when its metadata is already known.
    pub input_needs: Vec<Need>,
    /// True if inputs share storages.
    pub grouped: bool,
    /// True if inputs are written.
    pub mutates: bool,
    /// The slot of each result, and the layout to return if it is not the slot's own.
    pub results: Vec<(usize, Option<Layout>)>,
    /// Inputs whose version counters increase at the commit, with the increment.
    pub bumps: Vec<(usize, i64)>,
    /// The way that autograd treats each output.
    pub making: Vec<Making>,
    /// Outputs that are rebuilt as views of another base.
    pub rebased: Vec<(usize, Base)>,
    /// True if the outputs are only results, inputs and constants: no views, no versions.
    pub plain_outputs: bool,
}

struct Lowering<'a> {
    plan: &'a Plan,
    /// The known facts about the layout that the current step defines.
    known: Option<Fact>,
    places: Vec<Option<Seen<'a>>>,
    /// The handle of each register; may be shorter than the list of registers.
    handle_of: Vec<Option<usize>>,
    /// The available bytes of each slot's tensor, from its element 0.
    slot_spans: Vec<Option<(i64, i64)>>,
    committed: bool,
    out: Program,
}

fn err<T>(message: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError(message.into()))
}

pub(crate) fn lower(plan: &Plan) -> Result<Program, PlanError> {
    lower_again(plan, &Facts::default(), Program::default())
}

/// Like [`lower`], for a plan with these known layouts, reusing the memory of a program that was [emptied](Program::emptied).
pub(crate) fn lower_again(plan: &Plan, facts: &Facts, spent: Program) -> Result<Program, PlanError> {
    let n = plan.inputs.len();
    // A step defines at most one register, except calls with several results.
    let registers = n + plan.steps.len();
    let places = Vec::with_capacity(registers);
    let mut l = Lowering { plan, known: None, places, handle_of: Vec::new(), slot_spans: Vec::new(), committed: false, out: spent };
    l.out.input_reach = vec![None; n];
    l.out.ops.reserve(plan.steps.len());
    for (i, input) in plan.inputs.iter().enumerate() {
        let place =
            Seen::tensor(Root::Input(i), &input.layout, facts.input(i)).map_err(|PlanError(e)| PlanError(format!("input {i}: {e}")))?;
        l.define(i, place)?;
    }
    for (i, step) in plan.steps.iter().enumerate() {
        l.known = facts.step(i);
        let origin = || plan.origins.get(i).cloned().unwrap_or_else(|| format!("step {i}"));
        l.step(step).map_err(|PlanError(e)| PlanError(format!("{}: {e}", origin())))?;
    }
    if !l.committed && plan.inputs.iter().any(|i| i.mutated) {
        return err("inputs are mutated but there is no commit");
    }
    l.out.bumps = effects::bumps(plan)?;
    if !l.committed && !l.out.bumps.is_empty() {
        // Version counted without a write: a view of it has changed its shape in place.
        l.out.ops.push(Op::Commit);
    }
    l.results()?;
    for (i, output) in plan.outputs.iter().enumerate() {
        l.output(i, output).map_err(|PlanError(e)| PlanError(format!("output {i}: {e}")))?;
    }
    l.out.slots.truncate(l.slot_spans.len());
    l.out.slot_binds.truncate(l.slot_spans.len());
    l.out.making = making(plan)?;
    check_made_from(plan)?;
    l.out.rebased = bases::steps(plan)?;
    let mut program = l.out;
    program.device = plan.device;
    add_releases(&mut program);
    program.input_needs = plan.inputs.iter().zip(&program.input_reach).map(|(spec, reach)| Need::new(spec, *reach)).collect();
    program.grouped = plan.inputs.iter().any(|input| input.storage.is_some());
    program.mutates = plan.inputs.iter().any(|input| input.mutated);
    program.plain_outputs = program.rebased.is_empty()
        && !program.making.contains(&Making::Detached)
        && program.results.iter().all(|(_, layout)| layout.is_none())
        && plan.versions.iter().all(|&versions| versions == 0)
        && !plan.outputs.iter().any(|output| matches!(output, Output::ArgView { .. } | Output::ResultView { .. }));
    Ok(program)
}

/// Checks that torch supports a tensor with this plausible layout.
fn torchlike(layout: &Layout) -> Result<(), PlanError> {
    if layout.is_torchlike() { Ok(()) } else { err(format!("a tensor cannot have strides {:?}", layout.window.strides)) }
}

impl<'a> Lowering<'a> {
    fn define(&mut self, reg: Reg, place: Seen<'a>) -> Result<(), PlanError> {
        if reg > 1 << 24 {
            return err(format!("register {reg} is out of range"));
        }
        if self.places.len() <= reg {
            self.places.resize(reg + 1, None);
        }
        if self.places[reg].is_some() {
            return err(format!("register {reg} is defined twice"));
        }
        self.places[reg] = Some(place);
        Ok(())
    }

    fn place(&self, reg: Reg) -> Result<&Seen<'a>, PlanError> {
        self.places.get(reg).and_then(Option::as_ref).ok_or_else(|| PlanError(format!("register {reg} is not defined here")))
    }

    fn new_slot(&mut self, reg: Reg, layout: &'a Layout, known: Option<Fact>) -> Result<usize, PlanError> {
        // The reused list may be longer.
        let slot = self.slot_spans.len();
        let place = Seen::tensor(Root::Slot(slot), layout, known)?;
        if let Some(before) = self.out.slots.get_mut(slot) {
            before.clone_from(layout);
        } else {
            self.out.slots.push(layout.clone());
            self.out.slot_binds.push(Binds::new());
        }
        self.slot_spans.push(place.span);
        self.define(reg, place)?;
        Ok(slot)
    }

    fn step(&mut self, step: &'a Step) -> Result<(), PlanError> {
        match step {
            Step::Buffer { dst, byte_offset, layout } => {
                let base = i64::try_from(*byte_offset).map_err(|_| PlanError("byte offset out of range".to_owned()))?;
                let place = Seen::new(Root::Workspace, base, layout, self.known)?;
                self.check_bounds(&place)?;
                self.define(*dst, place)
            }
            Step::OutputBuffer { dst, layout } => {
                let slot = self.new_slot(*dst, layout, self.known)?;
                self.out.ops.push(Op::Allocate { slot });
                Ok(())
            }
            Step::View { dst, src, layout } => {
                let Seen { root, base, .. } = *self.place(*src)?;
                let place = Seen::new(root, base, layout, self.known)?;
                self.check_bounds(&place)?;
                self.define(*dst, place)
            }
            Step::Launch { kernel, args, sizes } => self.launch(*kernel, args, sizes),
            Step::Extern { call, operands, outs, results } => self.extern_call(*call, operands, outs, results),
            Step::CheckRange { .. } if self.committed => err("a check after the commit"),
            Step::CheckRange { src, low, high, message } => self.check_range(*src, (*low, *high), message),
            Step::Commit if self.committed => err("a second commit"),
            Step::Commit => {
                self.committed = true;
                self.out.ops.push(Op::Commit);
                Ok(())
            }
        }
    }

    /// Checks that a register is inside its root.
    fn check_bounds(&mut self, place: &Seen<'_>) -> Result<(), PlanError> {
        let own = match place.root {
            Root::Workspace => Some((0, i64::try_from(self.plan.workspace_bytes).unwrap_or(i64::MAX))),
            Root::Slot(slot) => self.slot_spans[slot],
            // Inputs are the first registers.
            Root::Input(i) => self.place(i)?.span,
        };
        if let (Some((low, high)), Root::Input(i)) = (bounds::inside(place, own.unwrap_or((0, 0)))?, place.root) {
            let (l, h) = self.out.input_reach[i].unwrap_or((low, high));
            self.out.input_reach[i] = Some((l.min(low), h.max(high)));
        }
        Ok(())
    }

    /// Checks that the written registers may be written, and do not overlap with another register of the step.
    fn check_writes(&self, read: &[Reg], written: &[Reg]) -> Result<(), PlanError> {
        for (i, &reg) in written.iter().enumerate() {
            let place = self.place(reg)?;
            bounds::writable(place, self.plan, self.committed)?;
            for &other in read.iter().chain(&written[..i]) {
                if !bounds::apart(place, self.place(other)?, &self.plan.inputs) {
                    return err("what is written overlaps with another operand");
                }
            }
        }
        Ok(())
    }

    fn launch(&mut self, kernel: usize, args: &[Reg], sizes: &[i64]) -> Result<(), PlanError> {
        let Some(spec) = self.plan.kernels.get(kernel) else {
            return err(format!("there is no kernel {kernel}"));
        };
        if args.len() != spec.arguments || spec.written > spec.arguments {
            return err(format!("{} takes {} arguments, {} are given", spec.name, spec.arguments, args.len()));
        }
        if sizes.len() != spec.sizes {
            return err(format!("{} takes {} sizes, {} are given", spec.name, spec.sizes, sizes.len()));
        }
        let (read, written) = args.split_at(spec.arguments - spec.written);
        self.check_writes(read, written)?;
        // With dynamic sizes, the plan could not know that the output is empty.
        let mut makes_nothing = !written.is_empty();
        for &reg in written {
            makes_nothing &= self.place(reg)?.layout.window.is_empty();
        }
        if makes_nothing {
            return Ok(());
        }
        let row = self.row(args)?;
        self.out.sizes.extend((self.out.addresses..).zip(sizes.iter().copied()));
        self.out.addresses += sizes.len();
        self.out.ops.push(Op::Launch { kernel, row });
        Ok(())
    }

    fn check_range(&mut self, src: Reg, (low, high): (i64, i64), message: &str) -> Result<(), PlanError> {
        let layout = &self.place(src)?.layout;
        if layout.dtype != DType::I64 {
            return err(format!("a range check of {}", layout.dtype.name()));
        }
        let (sizes, strides) = (layout.window.sizes.clone(), layout.window.strides.clone());
        let row = self.row(&[src])?;
        let check = self.out.checks.len();
        self.out.checks.push(Check { row, sizes, strides, low, high, message: message.to_owned() });
        self.out.ops.push(Op::CheckRange { check });
        Ok(())
    }

    /// Adds a row of the address table, bound to registers.
    fn row(&mut self, args: &[Reg]) -> Result<usize, PlanError> {
        let row = self.out.addresses;
        for (i, &reg) in args.iter().enumerate() {
            let place = self.place(reg)?;
            let (root, bind) = (place.root, (row + i, place.first()));
            match root {
                Root::Workspace => self.out.workspace_binds.push(bind),
                Root::Input(i) => self.out.input_binds.push((i, bind)),
                Root::Slot(s) => self.out.slot_binds[s].push(bind),
            }
        }
        self.out.addresses += args.len();
        Ok(row)
    }

    fn extern_call(&mut self, call: usize, operands: &[Reg], outs: &[Reg], results: &[Reg]) -> Result<(), PlanError> {
        let Some(spec) = self.plan.externs.get(call) else {
            return err(format!("there is no extern call {call}"));
        };
        if !outs.is_empty() && !results.is_empty() {
            return err("an extern call has both outs and results");
        }
        for &reg in outs {
            if matches!(self.place(reg)?.root, Root::Input(_)) {
                return err(format!("{} writes an input", spec.schema));
            }
        }
        self.check_writes(operands, outs)?;
        if !outs.is_empty() && outs.len() != spec.result_layouts.len() {
            return err(format!("{} has {} outs but {} layouts", spec.schema, outs.len(), spec.result_layouts.len()));
        }
        let operand_types = operands.iter().map(|&r| Ok(self.place(r)?.layout.dtype)).collect::<Result<_, PlanError>>()?;
        let operands = operands.iter().map(|&r| self.source(r)).collect::<Result<_, _>>()?;
        let outs = outs.iter().map(|&r| self.source(r)).collect::<Result<_, _>>()?;
        if !results.is_empty() && results.len() != spec.result_layouts.len() {
            return err(format!("{} has {} results but {} layouts", spec.schema, results.len(), spec.result_layouts.len()));
        }
        let results = results
            .iter()
            .zip(&spec.result_layouts)
            .map(|(&reg, layout)| layout.as_ref().map(|l| self.new_slot(reg, l, None)).transpose())
            .collect::<Result<_, _>>()?;
        let step = self.out.externs.len();
        self.out.externs.push(ExternStep { call, operands, operand_types, outs, results });
        self.out.ops.push(Op::Extern { step });
        Ok(())
    }

    /// Returns the tensor object for a register: that of its root if the layouts agree, otherwise one created over its memory.
    fn source(&mut self, reg: Reg) -> Result<Source, PlanError> {
        let place = self.place(reg)?;
        match place.root {
            Root::Input(i) if *place.layout == self.plan.inputs[i].layout => {
                return Ok(Source::Input(i));
            }
            Root::Slot(s) if *place.layout == self.out.slots[s] => return Ok(Source::Slot(s)),
            _ => {}
        }
        if let Some(Some(handle)) = self.handle_of.get(reg) {
            return Ok(Source::Handle(*handle));
        }
        torchlike(place.layout)?;
        let place = TensorPlace { root: place.root, base: place.base, layout: place.layout.clone() };
        let handle = self.out.handles.len();
        self.out.handles.push(place);
        if self.handle_of.len() <= reg {
            self.handle_of.resize(reg + 1, None);
        }
        self.handle_of[reg] = Some(handle);
        Ok(Source::Handle(handle))
    }

    fn results(&mut self) -> Result<(), PlanError> {
        for (i, &reg) in self.plan.results.iter().enumerate() {
            let place = self.place(reg)?;
            let Root::Slot(slot) = place.root else {
                return err(format!("result {i} is not memory of its own"));
            };
            if self.out.results.iter().any(|(s, _)| *s == slot) {
                return err(format!("result {i} shares its memory with another result"));
            }
            torchlike(place.layout)?;
            let layout = (*place.layout != self.out.slots[slot]).then(|| place.layout.clone());
            self.out.results.push((slot, layout));
        }
        Ok(())
    }

    /// Checks that an output refers to an existing value, and that a view is inside it.
    fn output(&mut self, i: usize, output: &Output) -> Result<(), PlanError> {
        let plan = self.plan;
        let missing = || PlanError("it names something that does not exist".to_owned());
        match output {
            Output::Result(r) if plan.outputs[..i].contains(output) => err(format!("it repeats result {r}; it should be 'same'")),
            Output::Result(r) => plan.results.get(*r).map(|_| ()).ok_or_else(missing),
            Output::Arg(a) => plan.inputs.get(*a).map(|_| ()).ok_or_else(missing),
            Output::ArgView { arg, sizes, strides, offset } => {
                let input = plan.inputs.get(*arg).ok_or_else(missing)?;
                let start = -input.layout.first_byte();
                let view = bounds::view(input.layout.dtype, (sizes, strides, *offset))?;
                self.check_bounds(&Seen::new(Root::Input(*arg), start, &view, None)?)
            }
            Output::ResultView { result, sizes, strides, offset } => {
                let place = self.place(*plan.results.get(*result).ok_or_else(missing)?)?;
                let (root, first) = (place.root, place.first());
                let view = bounds::view(place.layout.dtype, (sizes, strides, *offset))?;
                self.check_bounds(&Seen::new(root, first, &view, None)?)
            }
            Output::Same(o) if *o >= i => Err(missing()),
            Output::Same(_) | Output::None | Output::Const(_) => Ok(()),
        }
    }
}

/// Frees each tensor that is not a result after the last op that touches it.
fn add_releases(program: &mut Program) {
    let mut row_slots = vec![None; program.addresses];
    for (slot, binds) in program.slot_binds.iter().enumerate() {
        for (index, _) in binds {
            row_slots[*index] = Some(slot);
        }
    }
    // Rows are adjacent, so a launch's or check's row ends where the next one starts.
    let mut row_end = program.addresses;
    let mut released: Vec<bool> = vec![false; program.slots.len()];
    for (slot, _) in &program.results {
        released[*slot] = true;
    }
    let mut backwards = Vec::with_capacity(program.ops.len() + program.slots.len());
    let mut used = Vec::new();
    for op in program.ops.iter().rev() {
        match *op {
            Op::Launch { row, .. } => {
                used.extend(row_slots[row..row_end].iter().flatten().copied());
                row_end = row;
            }
            Op::CheckRange { check } => {
                let row = program.checks[check].row;
                used.extend(row_slots[row..row_end].iter().flatten().copied());
                row_end = row;
            }
            Op::Allocate { slot } => used.push(slot),
            Op::Extern { step } => {
                let e = &program.externs[step];
                used.extend(e.results.iter().flatten().copied());
                for source in e.operands.iter().chain(&e.outs) {
                    match *source {
                        Source::Slot(s) => used.push(s),
                        Source::Handle(h) => {
                            if let Root::Slot(s) = program.handles[h].root {
                                used.push(s);
                            }
                        }
                        Source::Input(_) => {}
                    }
                }
            }
            Op::Release { .. } | Op::Commit => {}
        }
        for slot in used.drain(..) {
            if !std::mem::replace(&mut released[slot], true) {
                backwards.push(Op::Release { slot });
            }
        }
        backwards.push(*op);
    }
    backwards.reverse();
    program.ops = backwards;
}

#[cfg(test)]
#[path = "lower_tests.rs"]
mod tests;
