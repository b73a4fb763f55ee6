//! The computation of a kernel of stage 05, in a form from which code for threads can be generated.
//!
//! A kernel is a chain of `linalg.generic`s over one iteration domain, the *phases*. A result of a phase is of one of three kinds: one
//! value per point of the domain, one per row (the domain without its reduced dimensions), or a reduction of points to one value per row.
//! [`Kernel::read`] determines the kind, the source of each operand of a body and the destination of each result; or the reason why the
//! kernel does not have this form.

use std::collections::{HashMap, HashSet};

use dynamlir_dialect::{
    ir::{AffineExpr, AffineMap, Block, Op, Symbol, Type, Value},
    upstream::{
        arith,
        bufferization::{MATERIALIZE_IN_DESTINATION, TO_TENSOR},
        func, linalg, tensor,
    },
};

/// A kernel in this form.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The function.
    pub(crate) function: Op,
    /// Its phases, first to last.
    pub(crate) phases: Vec<Phase>,
    /// Sizes of the iteration domain.
    pub(crate) domain: Vec<i64>,
    /// For each dimension of the domain, true if no phase reduces it.
    pub(crate) kept: Vec<bool>,
    /// The outputs of the kernel.
    pub(crate) stores: Vec<Store>,
    /// The sources of the arguments of the phases' bodies.
    pub(crate) inputs: HashMap<Value, Input>,
    /// Tensors that a body reads by index, and the kernel arguments that contain them.
    pub(crate) gathered: HashMap<Value, usize>,
}

/// One `linalg.generic`.
#[derive(Debug)]
pub(crate) struct Phase {
    /// The dimensions of the domain that its loops run over: all, or the kept ones.
    pub(crate) dims: Vec<usize>,
    /// Its results.
    pub(crate) results: Vec<Outcome>,
}

/// A result of a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// A value for each point of the domain, as computed in the body.
    Point(Value),
    /// A value for each row, as computed in the body.
    Row(Value),
    /// `combiner(accumulator, element)` over the row's points.
    Reduced {
        /// The operation that folds in one element.
        combiner: Op,
        /// The body's argument with the accumulated value so far.
        accumulator: Value,
        /// The element that is folded in.
        element: Value,
        /// The constant result of an empty row; see [`is_neutral`].
        start: Value,
    },
}

/// The source of an argument of a body.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// An argument of the kernel. `access` has, for each dimension of its memory, the dimension of the domain that indexes it; `None` stays
    /// at index 0.
    Memory {
        /// The number of the argument.
        argument: usize,
        /// The way it is indexed.
        access: Vec<Option<usize>>,
    },
    /// A result of an earlier phase, at the same point or row.
    Result {
        /// The phase.
        phase: usize,
        /// The number of the result.
        result: usize,
    },
    /// A scalar that is defined outside the body.
    Scalar(Value),
}

/// A result that is written to an argument of the kernel.
#[derive(Debug)]
pub(crate) struct Store {
    /// The phase.
    pub(crate) phase: usize,
    /// The number of the result.
    pub(crate) result: usize,
    /// The argument.
    pub(crate) argument: usize,
    /// As in [`Input::Memory`].
    pub(crate) access: Vec<Option<usize>>,
}

/// The result of reading: the kernel, or the reason why it is not turned into GPU code.
pub(crate) type Read<T> = Result<T, String>;

/// A generic before it becomes a [`Phase`].
struct Generic {
    op: Op,
    body: Block,
    reduced: Vec<bool>,
    ranges: Vec<i64>,
    /// Per operand: the loop that indexes each of its dimensions, `None` for index 0.
    accesses: Vec<Vec<Option<usize>>>,
    inputs: usize,
}

impl Kernel {
    /// Reads a kernel function.
    pub(crate) fn read(function: Op) -> Read<Self> {
        let body = function.body().ok_or("it is a declaration")?;
        let generics = generics(body)?;
        let domain = generics.iter().map(|generic| generic.ranges.clone()).max_by_key(Vec::len).ok_or("it has no phase")?;
        let mut kept = vec![true; domain.len()];
        for generic in generics.iter().filter(|generic| generic.ranges.len() == domain.len()) {
            for (kept, reduced) in kept.iter_mut().zip(&generic.reduced) {
                *kept &= !reduced;
            }
        }
        let rows: Vec<_> = (0..domain.len()).filter(|&d| kept[d]).collect();
        if domain.contains(&0) {
            return Err("it has no elements".into());
        }
        let arguments: HashMap<_, _> = body.args().into_iter().enumerate().map(|(index, value)| (value, index)).collect();
        let mut kernel =
            Self { function, phases: Vec::new(), domain, kept, stores: Vec::new(), inputs: HashMap::new(), gathered: HashMap::new() };
        for op in body.ops() {
            if op.is(TO_TENSOR)
                && let Some(&argument) = arguments.get(&op.operand(0))
            {
                kernel.gathered.insert(op.result(0), argument);
            }
        }
        for (number, generic) in generics.iter().enumerate() {
            let dims: Vec<_> = if generic.ranges.len() == kernel.domain.len() { (0..kernel.domain.len()).collect() } else { rows.clone() };
            let fits = dims.len() == generic.ranges.len() && dims.iter().zip(&generic.ranges).all(|(&d, &range)| kernel.domain[d] == range);
            if !fits {
                return Err(format!("phase {number} runs over neither the kernel's domain nor its rows"));
            }
            kernel.phase(number, generic, dims, &generics)?;
        }
        kernel.stores(body, &generics, &arguments)?;
        Ok(kernel)
    }

    /// Returns true if there is a reduction.
    pub(crate) fn reduces(&self) -> bool {
        self.kept.contains(&false)
    }
    /// Number of points of the dimensions that are kept (or not).
    pub(crate) fn elements(&self, kept: bool) -> i64 {
        self.dims(kept).into_iter().map(|d| self.domain[d]).product()
    }
    /// The dimensions that are kept (or not).
    pub(crate) fn dims(&self, kept: bool) -> Vec<usize> {
        (0..self.domain.len()).filter(|&d| self.kept[d] == kept).collect()
    }
    /// Type of an argument.
    pub(crate) fn memory(&self, argument: usize) -> Type {
        self.function.body().expect("the kernel was read from a body").args()[argument].ty()
    }
    /// Every way in which the kernel indexes its arguments, in loads and stores, except by computed indices.
    pub(crate) fn accesses(&self) -> Vec<(usize, &[Option<usize>])> {
        let loads = self.inputs.values().filter_map(|input| match input {
            Input::Memory { argument, access } => Some((*argument, access.as_slice())),
            _ => None,
        });
        loads.chain(self.stores.iter().map(|store| (store.argument, store.access.as_slice()))).collect()
    }

    fn phase(&mut self, number: usize, generic: &Generic, dims: Vec<usize>, all: &[Generic]) -> Read<()> {
        let over_rows = dims.len() < self.domain.len() || !self.reduces();
        let in_domain = |access: &[Option<usize>]| access.iter().map(|dim| dim.map(|d| dims[d])).collect::<Vec<_>>();
        let args = generic.body.args();
        let used = used_inside(generic.body);
        for index in (0..generic.inputs).filter(|&index| used.contains(&args[index])) {
            let operand = generic.op.operand(index);
            let access = in_domain(&generic.accesses[index]);
            let input = if let Some(&argument) = self.gathered.get(&operand) {
                Input::Memory { argument, access }
            } else if let Some((phase, result)) = result_of(operand, all) {
                let expected: Vec<_> = match self.phases[phase].results[result] {
                    Outcome::Point(_) => (0..self.domain.len()).map(Some).collect(),
                    _ => self.dims(true).into_iter().map(Some).collect(),
                };
                if access != expected {
                    return Err(format!("phase {number} reads what phase {phase} yields at another point"));
                }
                Input::Result { phase, result }
            } else if !operand.ty().is_tensor() {
                Input::Scalar(operand)
            } else {
                return Err(format!("operand {index} of phase {number} is neither an argument nor another phase's result"));
            };
            self.inputs.insert(args[index], input);
        }
        for op in body_ops(generic.body) {
            if op.is(tensor::EXTRACT) && !self.gathered.contains_key(&op.operand(0)) {
                return Err(format!("phase {number} indexes into what the kernel itself computes"));
            }
            if op.is(func::CALL) {
                return Err(format!("it calls {}", op.required::<Symbol>("callee").name));
            }
        }
        let yields = generic.body.terminator().ok_or("a body without a terminator")?.operands();
        let rows: Vec<_> = self.dims(true).into_iter().map(Some).collect();
        let points: Vec<_> = (0..self.domain.len()).map(Some).collect();
        let mut results = Vec::new();
        for (index, &value) in yields.iter().enumerate() {
            let operand = generic.inputs + index;
            let accumulator = args[operand];
            let access = in_domain(&generic.accesses[operand]);
            let outcome = if depends(value, &|leaf| leaf == accumulator) {
                let start = start(generic.op.operand(operand))
                    .ok_or_else(|| format!("reduction {index} of phase {number} starts from no constant"))?;
                reduction(value, accumulator, start)
                    .ok_or_else(|| format!("reduction {index} of phase {number} is none that pieces can be combined of"))?
            } else if access == points {
                Outcome::Point(value)
            } else if access == rows && (over_rows || !self.depends_on_point(value, &dims)) {
                Outcome::Row(value)
            } else {
                return Err(format!("result {index} of phase {number} is neither of a point nor of a row"));
            };
            if matches!(outcome, Outcome::Reduced { .. }) && access != rows {
                return Err(format!("reduction {index} of phase {number} gives something else than rows"));
            }
            let others = |leaf: Value| leaf.arg_index().is_some_and(|at| at >= generic.inputs) && args.contains(&leaf);
            let element = match outcome {
                Outcome::Reduced { element, .. } => element,
                Outcome::Point(value) | Outcome::Row(value) => value,
            };
            if depends(element, &others) {
                return Err(format!("phase {number} is a scan: its points depend on the ones before"));
            }
            results.push(outcome);
        }
        self.phases.push(Phase { dims, results });
        Ok(())
    }

    /// Returns true if a value of a body differs between the points of a row.
    fn depends_on_point(&self, value: Value, dims: &[usize]) -> bool {
        depends(value, &|leaf| match self.inputs.get(&leaf) {
            Some(Input::Memory { access, .. }) => access.iter().flatten().any(|&d| !self.kept[d]),
            Some(&Input::Result { phase, result }) => matches!(self.phases[phase].results[result], Outcome::Point(_)),
            Some(Input::Scalar(_)) => false,
            None => leaf.def().is_some_and(|op| op.is(linalg::INDEX) && !self.kept[dims[op.required::<i64>("dim") as usize]]),
        })
    }

    fn stores(&mut self, body: Block, all: &[Generic], arguments: &HashMap<Value, usize>) -> Read<()> {
        for op in body.ops().into_iter().filter(|op| op.is(MATERIALIZE_IN_DESTINATION)) {
            let (phase, result) = result_of(op.operand(0), all).ok_or("it writes what no phase yields")?;
            let &argument = arguments.get(&op.operand(1)).ok_or("it writes to memory that is not an argument")?;
            let generic = &all[phase];
            let access = generic.accesses[generic.inputs + result].iter().map(|dim| dim.map(|d| self.phases[phase].dims[d])).collect();
            self.stores.push(Store { phase, result, argument, access });
        }
        if self.stores.is_empty() { Err("it writes nothing".into()) } else { Ok(()) }
    }
}

/// The kernel's generics; an error if anything else in it computes or writes.
fn generics(body: Block) -> Read<Vec<Generic>> {
    const AROUND: &[&str] = &[arith::CONSTANT, MATERIALIZE_IN_DESTINATION, TO_TENSOR, func::RETURN, linalg::FILL, tensor::EMPTY];
    let mut found = Vec::new();
    for op in body.ops() {
        if op.is(linalg::GENERIC) {
            found.push(generic(op).ok_or_else(|| format!("phase {} is not affine and static", found.len()))?);
        } else if !AROUND.iter().any(|name| op.is(name)) {
            return Err(format!("it has a {}", op.name()));
        }
    }
    Ok(found)
}

fn generic(op: Op) -> Option<Generic> {
    let reduced = linalg::reductions(op);
    let accesses = linalg::indexing_maps(op)?.into_iter().map(access).collect::<Option<Vec<_>>>()?;
    let mut ranges = vec![None; reduced.len()];
    for (access, operand) in accesses.iter().zip(op.operands()) {
        for (dim, size) in access.iter().zip(operand.ty().shape()) {
            if let Some(dim) = *dim {
                ranges[dim] = Some(size).filter(|&size| size >= 0);
            }
        }
    }
    let inputs = op.num_operands() - op.num_results();
    Some(Generic { op, body: op.body()?, reduced, ranges: ranges.into_iter().collect::<Option<_>>()?, accesses, inputs })
}

/// The results of an indexing map: each is a loop, or `None` for index 0. `None` if one is anything else.
fn access(map: AffineMap) -> Option<Vec<Option<usize>>> {
    let one = |result: AffineExpr| result.as_dim().map(Some).or_else(|| result.as_constant().filter(|&at| at == 0).map(|_| None));
    map.results().into_iter().map(one).collect()
}

/// The phase and the number of the result that a tensor is, if it is one.
fn result_of(tensor: Value, all: &[Generic]) -> Option<(usize, usize)> {
    let op = tensor.def()?;
    Some((all.iter().position(|generic| generic.op == op)?, tensor.result_index()?))
}

/// The constant that an accumulator is filled with.
fn start(accumulator: Value) -> Option<Value> {
    let fill = accumulator.def().filter(|op| op.is(linalg::FILL))?;
    fill.operand(0).def().filter(|op| op.is(arith::CONSTANT)).map(|op| op.result(0))
}

/// Reads `value = combiner(accumulator, element)`.
fn reduction(value: Value, accumulator: Value, start: Value) -> Option<Outcome> {
    let combiner = value.def()?;
    let [a, b] = combiner.operands()[..] else { return None };
    let element = if a == accumulator { b } else { a };
    let once = (a == accumulator) != (b == accumulator) && !depends(element, &|leaf| leaf == accumulator);
    let same = element.ty() == value.ty() && is_neutral(combiner, start);
    (once && same).then_some(Outcome::Reduced { combiner, accumulator, element, start })
}

/// Returns true if a row may be reduced in pieces, each of which starts from `start`: the combiner is associative and commutative (as far
/// as the kernel's rounding is concerned), and folding in `start` again does not change the result.
fn is_neutral(combiner: Op, start: Value) -> bool {
    let value = start.def().and_then(|op| op.attr("value"));
    let is = |wanted: i32| {
        let value = value.map(|value| (value.as_f64(), value.as_i64()));
        value.is_some_and(|(real, integer)| real == Some(wanted.into()) || integer == Some(wanted.into()))
    };
    match combiner.name().as_str() {
        arith::ADDF | arith::ADDI | arith::XORI => is(0),
        arith::MULF | arith::MULI => is(1),
        arith::MAXIMUMF
        | arith::MINIMUMF
        | arith::MAXNUMF
        | arith::MINNUMF
        | arith::MAXSI
        | arith::MINSI
        | arith::MAXUI
        | arith::MINUI
        | arith::ANDI
        | arith::ORI => true,
        _ => false,
    }
}

/// All operations of a body, including nested ones.
fn body_ops(body: Block) -> Vec<Op> {
    let mut found = Vec::new();
    for op in body.ops() {
        op.walk(&mut |op| found.push(op));
    }
    found
}

fn used_inside(body: Block) -> HashSet<Value> {
    body_ops(body).into_iter().flat_map(Op::operands).collect()
}

/// Returns true if a value is computed from one that `wanted` accepts; `wanted` is called on block arguments and results.
pub(crate) fn depends(value: Value, wanted: &dyn Fn(Value) -> bool) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if !seen.insert(value) {
            continue;
        }
        if wanted(value) {
            return true;
        }
        if let Some(op) = value.def() {
            op.walk(&mut |op| open.extend(op.operands()));
        }
    }
    false
}
