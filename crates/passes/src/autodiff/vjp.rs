//! `vjp = @f`: a derivative recorded from torch's own formula, which is copied to the places that need it.
//!
//! ```mlir
//! %1 = dynamo.aten "mine.swirl.default"(%x) … {vjp = @swirl_vjp, …}
//!
//! func.func private @swirl_vjp(%x: tensor<4xf32>, %y: tensor<4xf32>, %t: tensor<4xf32> {dynamo.tangent = 0})
//!     -> (tensor<4xf32> {dynamo.gradient = 0}) { … }
//! ```
//! `@f` takes the operands, the results and tangents. It is copied since its operations are themselves differentiated for double backward.
//! If it was recorded with grad mode off throughout, as a backward pass runs, its operations count as recorded with it on.
//!
//! Torch's formulas omit undefined tangents, and everything that depends on them alone. So does a copy: a zero instead of such a tangent
//! might be divided by zero, as for a matrix with two equal singular values.

use std::collections::{HashMap, HashSet};

use super::{aten::Aten, walk::Walk};
use dynamlir_dialect::{
    ir::{Attr, Block, Op, Value},
    ops::{self, AtenOp},
    pass::{PassError, PassResult},
};
use dynamlir_reasons::AUTOGRAD;

/// Adds the gradients of a call's operands by copying the function named in `vjp`.
pub fn apply<'s>(walk: &mut Walk<'s>, call: AtenOp, emit: Aten<'s>) -> PassResult {
    let op = call.op();
    let name = call.vjp().map(|symbol| symbol.name).unwrap_or_default();
    let wrong = |message: &str| PassError::at(op, format!("@{name} is not the derivative of {}: {message}", call.schema()));
    let function = walk.functions.get(&name).copied().ok_or_else(|| wrong("there is no such function"))?;
    let (Some(body), Some(exit)) = (function.body(), function.body().and_then(Block::terminator)) else {
        return Err(wrong("it has no body"));
    };
    let known: Vec<Value> = op.operands().into_iter().chain(op.results()).collect();
    let mut tangents = known.iter().copied();
    let mut values: HashMap<Value, Value> = HashMap::new();
    let mut undefined: HashSet<Value> = HashSet::new();
    let mut reached = false;
    for (index, argument) in body.args().into_iter().enumerate() {
        let given = match ops::TANGENT.of_arg(function, index) {
            None => tangents.next().ok_or_else(|| wrong("it takes more than operands, results and tangents"))?,
            Some(result) => {
                let result = usize::try_from(result).ok().and_then(|result| op.results().get(result).copied());
                let result = result.ok_or_else(|| wrong("it takes the tangent of a result that there is not"))?;
                let gradient = walk.gradient(result);
                reached |= gradient.is_some();
                gradient.unwrap_or_else(|| {
                    undefined.insert(argument);
                    emit.zeros(result)
                })
            }
        };
        if given.ty() != argument.ty() {
            return Err(wrong(&format!("argument {index} is {}, not {}", argument.ty(), given.ty())));
        }
        values.insert(argument, given);
    }
    if !reached {
        return Ok(());
    }
    if walk.may_be_partial(op) && call.schema().starts_with("aten.") && body.ops().into_iter().any(may_be_infinite) {
        let message = format!("some results of {} may have a gradient where others have none", call.schema());
        return Err(PassError::refusal(op, AUTOGRAD, message));
    }
    if ops::MATERIALIZED.is_on(op) {
        walk.give_always();
    }
    // A user's function receives zeros, unless it requests otherwise.
    let zeros = if call.schema().starts_with("aten.") { zeros(body, &undefined) } else { HashSet::new() };
    copy(body, exit, &emit, &mut values, &zeros);
    let mut without: Vec<Value> = op.operands();
    for (index, gradient) in exit.operands().into_iter().enumerate() {
        let operand = ops::GRADIENT.of_result(function, index).and_then(|operand| usize::try_from(operand).ok());
        let operand = operand.filter(|&operand| operand < op.num_operands());
        let operand = op.operand(operand.ok_or_else(|| wrong(&format!("result {index} is no operand's gradient")))?);
        let gradient = values.get(&gradient).copied().unwrap_or(gradient);
        if gradient.ty() != operand.ty() {
            return Err(wrong(&format!("result {index} is {}, the operand {}", gradient.ty(), operand.ty())));
        }
        without.retain(|value| *value != operand);
        walk.add(operand, gradient);
    }
    for operand in without {
        walk.miss(operand);
    }
    Ok(())
}

/// Returns true for an operation whose results may be infinite for finite operands. Eager's formulas omit gradients that are not present.
/// If backward passes differ in which gradients are present, they are zeros here, and zero times infinity is NaN.
fn may_be_infinite(op: Op) -> bool {
    const NAMES: [&str; 12] = [
        "div",
        "reciprocal",
        "rsqrt",
        "pow",
        "log",
        "tan",
        "inverse",
        "linalg_inv_ex",
        "linalg_solve_ex",
        "linalg_solve_triangular",
        "linalg_lu_solve",
        "cholesky_inverse",
    ];
    let schema = AtenOp::cast(op).map(AtenOp::schema).unwrap_or_default();
    schema.strip_prefix("aten.").and_then(|rest| rest.split('.').next()).is_some_and(|name| NAMES.contains(&name))
}

/// Returns the values of a formula that are zero because they depend on undefined tangents only, or are multiplied by them.
fn zeros(body: Block, undefined: &HashSet<Value>) -> HashSet<Value> {
    const FACTORS: [&str; 6] = ["bmm", "dot", "matmul", "mm", "mul", "mv"];
    const LINEAR: [&str; 26] = [
        "alias",
        "clone",
        "conj",
        "_conj",
        "contiguous",
        "detach",
        "diag_embed",
        "diagonal",
        "expand",
        "neg",
        "permute",
        "real",
        "reshape",
        "select",
        "slice",
        "squeeze",
        "sum",
        "t",
        "_to_copy",
        "transpose",
        "tril",
        "triu",
        "unsqueeze",
        "_unsafe_view",
        "view",
        "view_as_real",
    ];
    let mut found = undefined.clone();
    for op in body.ops() {
        let schema = AtenOp::cast(op).map(AtenOp::schema).unwrap_or_default();
        let name = schema.strip_prefix("aten.").and_then(|rest| rest.split('.').next()).unwrap_or_default();
        let known: Vec<bool> = op.operands().iter().map(|operand| found.contains(operand)).collect();
        let is_zero = match name {
            name if FACTORS.contains(&name) => known.contains(&true),
            // These depend on the dividend, or on the tensor that a mask fills.
            "div" => known.first() == Some(&true),
            "masked_fill" => known == [true, false] && fills_with_zeros(op),
            "add" | "sub" => known.len() == 2 && !known.contains(&false),
            _ => LINEAR.contains(&name) && known == [true],
        };
        if is_zero {
            found.extend(op.results());
        }
    }
    found.retain(|value| !undefined.contains(value));
    found
}

/// Returns true if the elements that a mask selects become zero.
fn fills_with_zeros(op: Op) -> bool {
    let args = AtenOp::cast(op).map(AtenOp::args).unwrap_or_default();
    args.get(2).is_some_and(|value| value.as_f64() == Some(0.0) || value.as_i64() == Some(0))
}

/// Copies the operations of a formula; a value among the `zeros` becomes a constant if an operation reads it.
fn copy(body: Block, exit: Op, emit: &Aten, values: &mut HashMap<Value, Value>, zeros: &HashSet<Value>) {
    let inner: Vec<Op> = body.ops().into_iter().filter(|op| *op != exit).collect();
    let is_recorded = inner.iter().filter_map(|op| AtenOp::cast(*op)).any(AtenOp::grad_enabled);
    let made = |op: Op| op.results().first().is_some_and(|result| zeros.contains(result));
    for op in inner.into_iter().filter(|op| !made(*op)).chain([exit]) {
        for operand in op.operands().into_iter().filter(|operand| zeros.contains(operand)) {
            values.entry(operand).or_insert_with(|| emit.zeros_of(operand.ty()));
        }
        if op == exit {
            break;
        }
        let operands: Vec<_> = op.operands().into_iter().map(|value| values.get(&value).copied().unwrap_or(value)).collect();
        let results: Vec<_> = op.results().iter().map(|result| result.ty()).collect();
        let attrs = op.attrs();
        let mut attrs: Vec<(&str, Attr)> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
        if !is_recorded && op.is(AtenOp::NAME) {
            attrs.push(("grad_enabled", Attr::unit(op.ctx())));
        }
        let copied = emit.b.op(&op.name(), &operands, &results, &attrs);
        values.extend(op.results().into_iter().zip(copied.results()));
    }
}
