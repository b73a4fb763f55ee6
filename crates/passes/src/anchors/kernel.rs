//! A kernel with a product, at stage 05: the product's generic, and the root that computes the results from its sums.

use dynamlir_dialect::{
    ir::{AffineMap, Op, Value},
    ops,
    upstream::{bufferization, linalg, tensor},
};

use super::problem::Problem;

/// The role of a result dimension in the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The product is repeated along it; its index among such dimensions.
    Outer(usize),
    /// Lines of lhs.
    Left,
    /// Columns of rhs.
    Right,
}

/// The role of an operand of the root.
#[derive(Clone, Copy)]
pub(super) enum RootOperand {
    /// The sums.
    Sums,
    /// Memory, an argument of the kernel.
    Memory(Value),
    /// A number.
    Scalar(Value),
}

/// An operand of the root, and for each of its dimensions the dimension of the domain that it follows; `None` means index 0.
pub(super) struct Operand {
    pub(super) given: RootOperand,
    pub(super) access: Vec<Option<usize>>,
}

/// A kernel, with the roles of its parts.
pub(super) struct Kernel {
    pub(super) root: Op,
    pub(super) roles: Vec<Role>,
    /// The inputs, then the results.
    pub(super) operands: Vec<Operand>,
    pub(super) scratch: Option<Value>,
}

/// Returns the generic that computes a product, if the kernel has one.
pub(super) fn product(function: Op) -> Option<Op> {
    function.body()?.ops().into_iter().find(|op| op.is(linalg::GENERIC) && ops::BATCH.is_on(*op))
}

/// Returns the matrix product that a generic computes, and the roles of its result's dimensions.
pub(super) fn matrices(product: Op) -> Result<(Problem, Vec<Role>), &'static str> {
    let (lhs, rhs) = (loaded(product.operand(0)), loaded(product.operand(1)));
    let (lhs, rhs) = lhs.zip(rhs).ok_or("the operands of a product must be in memory")?;
    let batch = ops::BATCH.of(product).and_then(|batch| usize::try_from(batch).ok()).ok_or("not a number of batch dimensions")?;
    let strided = |value: Value| Some((value.ty().shape(), value.ty().strided()?.0));
    let (left, right) = strided(lhs).zip(strided(rhs)).ok_or("the operands of a product must have strides")?;
    let problem = Problem::of(batch, (&left.0, &left.1), (&right.0, &right.1)).ok_or("operands that do not fit each other")?;
    // batch…, m…, n…: the last m and the last n are the matrix dimensions.
    let rank = product.result(0).ty().rank();
    let last_line = (left.0.len() > batch + 1).then(|| left.0.len() - 2);
    let last_column = (right.0.len() > batch + 1).then(|| rank - 1);
    let mut outer = 0..;
    let role = |dim: usize| match dim {
        _ if Some(dim) == last_column => Some(Role::Right),
        _ if Some(dim) == last_line => Some(Role::Left),
        _ => outer.next().map(Role::Outer),
    };
    let roles = (0..rank).map(role).collect::<Option<_>>().ok_or("too many dimensions")?;
    Ok((problem, roles))
}

impl Kernel {
    /// Reads a kernel whose sums are the product's result, with these roles of its dimensions.
    pub(super) fn read(function: Op, product: Op, roles: Vec<Role>) -> Result<Self, &'static str> {
        let body = function.body().ok_or("a kernel without a body")?;
        let roots: Vec<Op> = body.ops().into_iter().filter(|&op| op.is(linalg::GENERIC) && op != product).collect();
        let [root] = roots[..] else { return Err("expected one generic after the product") };
        let maps = linalg::indexing_maps(root).unwrap_or_default();
        if maps.len() != root.num_operands() {
            return Err("expected a map for each operand");
        }
        let inputs = root.num_operands() - root.num_results();
        let mut operands = Vec::new();
        for (i, (value, map)) in root.operands().into_iter().zip(maps).enumerate() {
            let given = match () {
                () if value == product.result(0) => RootOperand::Sums,
                () if i >= inputs => RootOperand::Memory(stored(root.result(i - inputs)).ok_or("expected each result to be stored once")?),
                () if !value.ty().is_tensor() => RootOperand::Scalar(value),
                () => RootOperand::Memory(loaded(value).ok_or("expected operands in memory")?),
            };
            operands.push(Operand { given, access: access(map).ok_or("expected maps that name dimensions")? });
        }
        let indexed = root.body().is_some_and(|body| body.ops().iter().any(|op| op.is(linalg::INDEX) || op.is(tensor::EXTRACT)));
        if indexed {
            return Err("an epilogue must not ask for its place");
        }
        let scratch = scratch(function);
        Ok(Self { root, roles, operands, scratch })
    }
}

/// Returns the kernel argument that is scratch memory for the duration of the call.
pub(crate) fn scratch(function: Op) -> Option<Value> {
    let args = function.body()?.args();
    (0..args.len()).find(|&at| ops::SCRATCH.of_arg(function, at) == Some(true)).map(|at| args[at])
}

/// The memory that a tensor is loaded from.
pub(super) fn loaded(value: Value) -> Option<Value> {
    value.def().filter(|op| op.is(bufferization::TO_TENSOR)).map(|op| op.operand(0))
}

/// The memory that a result is stored to.
fn stored(value: Value) -> Option<Value> {
    let [used] = value.uses()[..] else { return None };
    used.op.is(bufferization::MATERIALIZE_IN_DESTINATION).then(|| used.op.operand(1))
}

/// The results of a map: `(d0, d1) -> (d1, 0)` is [1, None].
fn access(map: AffineMap) -> Option<Vec<Option<usize>>> {
    map.results()
        .into_iter()
        .map(|result| result.as_dim().map(Some).or_else(|| (result.as_constant() == Some(0)).then_some(None)))
        .collect()
}
