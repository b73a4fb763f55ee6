//! `dynamo-decompose`: lowers `ATen` ops to primitives.
//!
//! Before: `%1 = dynamo.aten "aten.rsqrt.default"(%0) args [#dynamo.operand<0>] : (tensor<4xi32>) -> tensor<4xf32>`
//!
//! After: `%c = dynamo.convert %0 : tensor<4xi32> -> tensor<4xf32>` and `%1 = dynamo.rsqrt %c : tensor<4xf32>`
//!
//! An op is lowered by the table entry of its schema. If there is no entry, or the entry declines, the function named by the op's
//! `decomposition` attribute is inlined, and its ops are lowered the same way. Without such a function the op remains and becomes an extern
//! call. Schemas in [`KEEP`] are never inlined. The pass erases the decomposition functions at the end.
//!
//! The lowering depends on the machine only where numbers do. Where the machine matters for speed – a product, which the library may
//! compute faster; an operation for which GPUs have no code – the op is kept with its lowering as its body, and `dynamo-select` picks one of
//! the two.
#![expect(clippy::float_cmp, reason = "constants of the program are compared exactly: each has its own lowering")]
#![expect(clippy::cast_precision_loss, reason = "element counts and small constants, which eager makes doubles too")]

pub mod activation;
mod adaptive_pool;
pub mod arith;
pub mod attention;
pub mod call;
pub mod compare;
pub mod convolution;
pub mod create;
pub mod distance;
pub mod formula;
pub mod histogram;
pub mod index;
pub mod index_write;
pub mod join;
pub mod keep;
pub mod linear;
pub mod loss;
pub mod loss_backward;
mod mark;
pub mod max_pool;
pub mod nn;
pub mod norm;
pub mod pad;
pub mod pointwise;
pub mod pool;
pub mod product;
pub mod promote;
pub mod random;
mod random_bits;
pub mod reduce;
pub mod resample;
pub mod resample_smooth;
pub mod running;
pub mod sample_volume;
pub mod scatter;
pub(crate) mod seeds;
mod shape;
pub mod softmax;
pub mod special;
pub mod special_bessel;
pub mod special_gamma;
pub mod special_normal;
pub mod special_polynomial;
pub mod special_ratios;
pub mod special_tables;
pub mod verify;
pub mod view;
mod window;

use dynamlir_dialect::{
    ir::{Block, Builder, Op, Target, Value, sizes},
    ops::{self, AtenOp, DynamoOp, YieldOp},
    pass::{Pass, PassError, PassResult, Run, Statistic, Takes},
    upstream::func,
};
use dynamlir_shapes::{Dim, Relation, Scope};
use std::{collections::HashMap, rc::Rc};

use crate::{library::is_optional, total::sweep};

pub use call::{Call, World};
pub use keep::KEEP;
use mark::{Mark, is_mistyped};

/// Lowers one op. Returns values of exactly its result types (any value of the right type for an unused result), or None to decline. Unused
/// emitted ops are erased later, so a lowering may decline after it has emitted some.
pub type Lowering = fn(&Call) -> Option<Vec<Value>>;

/// A lowering and the kind of sizes it accepts. If it accepts numbers only, calls with symbolic sizes are left to the library.
type Row = (Takes, Lowering);

/// The lowerings, by schema; each schema is in exactly one table.
pub const TABLES: &[(Takes, &[(&str, Lowering)])] = &[
    (Takes::Symbols, pointwise::TABLE),
    (Takes::Symbols, arith::TABLE),
    (Takes::Symbols, attention::TABLE),
    (Takes::Symbols, compare::TABLE),
    (Takes::Symbols, activation::TABLE),
    (Takes::Symbols, special::TABLE),
    (Takes::Symbols, special_bessel::TABLE),
    (Takes::Symbols, special_gamma::TABLE),
    (Takes::Symbols, special_normal::TABLE),
    (Takes::Symbols, special_polynomial::TABLE),
    (Takes::Symbols, reduce::TABLE),
    (Takes::Symbols, create::TABLE),
    (Takes::Symbols, view::TABLE),
    (Takes::Symbols, join::TABLE),
    (Takes::Symbols, scatter::TABLE),
    (Takes::Symbols, pad::TABLE),
    (Takes::Symbols, norm::TABLE),
    (Takes::Symbols, softmax::TABLE),
    (Takes::Symbols, nn::TABLE),
    (Takes::Symbols, random::TABLE),
    (Takes::Numbers, max_pool::TABLE),
    (Takes::Numbers, pool::TABLE),
    (Takes::Symbols, loss::TABLE),
    (Takes::Symbols, loss_backward::TABLE),
    (Takes::Numbers, linear::TABLE),
    (Takes::Symbols, product::TABLE),
    (Takes::Numbers, convolution::TABLE),
    (Takes::Numbers, distance::TABLE),
    (Takes::Symbols, index::TABLE),
    (Takes::Numbers, index_write::TABLE),
    (Takes::Numbers, histogram::TABLE),
    (Takes::Numbers, running::TABLE),
    (Takes::Numbers, resample::TABLE),
    (Takes::Numbers, resample_smooth::TABLE),
    (Takes::Numbers, sample_volume::TABLE),
];

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-decompose",
    description: "Lower ATen ops to primitive ops",
    takes: Takes::Symbols,
    options: &[],
    statistics: &[LOWERED, INLINED, LEFT],
    run,
};

const LOWERED: Statistic = Statistic { name: "lowered", description: "ATen operations lowered to primitives" };
const INLINED: Statistic = Statistic { name: "inlined", description: "ATen operations replaced by torch's own decomposition" };
const LEFT: Statistic = Statistic { name: "left", description: "ATen operations left to the library" };

/// Returns true if an operator draws random numbers with its own key, provided that its arguments allow that.
pub(crate) fn draws(op: Op) -> bool {
    AtenOp::cast(op).is_some_and(|call| random::TABLE.iter().any(|(schema, _)| *schema == call.schema()))
}

/// Every schema with a lowering.
pub fn lowered_schemas() -> impl Iterator<Item = &'static str> {
    TABLES.iter().flat_map(|(_, table)| table.iter().map(|&(schema, _)| schema))
}

fn run(module: Op, pass: &Run) -> PassResult {
    // The seeds of generated random numbers are in the CPU's memory.
    let eager_random = ops::EAGER_RANDOM.is_on(module) || ops::DEVICE.is_on(module);
    let world = World { wide: Target::of(module).vector_bits >= 512, eager_random };
    let Some(body) = module.body() else { return Ok(()) };
    let rows =
        |&(takes, table): &(Takes, &'static [(&'static str, Lowering)])| table.iter().map(move |&(schema, lower)| (schema, (takes, lower)));
    let lowerings: HashMap<&str, Row> = TABLES.iter().flat_map(rows).collect();
    let functions: Vec<Op> = body.ops().into_iter().filter(|op| op.is(func::FUNC)).collect();
    let (private, public): (Vec<Op>, Vec<Op>) = functions.into_iter().partition(|&op| is_private(op));
    let private: HashMap<String, Op> = private.into_iter().filter_map(|op| Some((op.symbol()?, op))).collect();
    for function in public {
        let Some(block) = function.body() else { continue };
        let numbered = seeds::numbered(&block.ops());
        let scope = Rc::new(sizes::scope(function));
        decompose_block(block, (&lowerings, &private), (world, &scope), pass)?;
        sweep(block);
        seeds::gather(function, block, numbered)?;
    }
    // All decompositions and derivatives have been inlined or belong to erased operations, so nothing refers to them any more.
    private.values().filter(|function| function.body().is_some() && !ops::ENTRY.is_on(**function)).for_each(|function| function.erase());
    Ok(())
}

/// An op to lower, and the decompositions from which it was inlined.
struct Work {
    op: Op,
    within: Vec<String>,
}

fn decompose_block(
    block: Block,
    (lowerings, private): (&HashMap<&str, Row>, &HashMap<String, Op>),
    (world, scope): (World, &Rc<Scope>),
    pass: &Run,
) -> PassResult {
    // A stack, so that inlined ops are lowered next.
    let mut work: Vec<Work> = block.ops().into_iter().rev().map(|op| Work { op, within: Vec::new() }).collect();
    let mark = Mark::new(block);
    while let Some(Work { op, within }) = work.pop() {
        if let Some(value) = without_gradient(op) {
            replace(op, &[value]);
            continue;
        }
        op.remove_attr("vjp");
        if has_complex(op) {
            // They are only passed between torch's operators.
            op.remove_attr("decomposition");
            decide(op, LIBRARY, "no code is generated for complex numbers", pass);
            continue;
        }
        let Some(call) = Call::new(op, world, Rc::clone(scope)) else { continue };
        let name = decomposition(op);
        let row = lowerings.get(call.schema());
        let lowering = row.filter(|(takes, _)| says_sizes(op, *takes));
        // If all operands are floats, no element type can be invalid.
        let unsure = op.operands().into_iter().any(|value| !value.ty().element().is_float());
        mark.put_before(op);
        let values = lowering.and_then(|(_, lower)| fitted(&call, lower(&call)?));
        let emitted = mark.emitted(op);
        let refused = call.is_misread() || (unsure && emitted.iter().any(|&op| is_mistyped(op)));
        if refused {
            emitted.iter().rev().for_each(|op| op.erase());
        }
        if let Some(values) = values.filter(|_| !refused) {
            check_types(op, call.schema(), &values)?;
            seeds::number(op, &emitted);
            pass.count(&LOWERED, 1);
            for &made in &emitted {
                recompute(op, made);
            }
            if emitted.iter().any(|&op| is_optional(op)) {
                keep_call(op, &emitted, &values);
            } else {
                replace(op, &values);
            }
            continue;
        }
        op.remove_attr("decomposition");
        let why = match (row, lowering) {
            (None, _) => "it has no lowering",
            (_, None) => "its lowering needs to know all sizes",
            _ if refused => "its lowering does not support these element types",
            _ => "its lowering does not support these arguments",
        };
        let inlinable = name.filter(|name| !KEEP.contains(&call.schema()) && !within.contains(name));
        let inlinable = inlinable.and_then(|name| private.get(&name).map(|&function| (name, function)));
        let Some((name, (values, inlined))) = inlinable.and_then(|(name, function)| Some((name, inline(op, function)?))) else {
            pass.count(&LEFT, 1);
            decide(op, LIBRARY, why, pass);
            continue;
        };
        pass.count(&INLINED, 1);
        decide(op, INLINE, why, pass);
        for &made in &inlined {
            recompute(op, made);
        }
        check_types(op, call.schema(), &values)?;
        replace(op, &values);
        let within: Vec<String> = within.into_iter().chain([name]).collect();
        work.extend(inlined.into_iter().rev().map(|op| Work { op, within: within.clone() }));
    }
    Ok(())
}

/// The alternatives in decisions about operations that are not lowered.
const CHOICES: [&str; 3] = [LIBRARY, INLINE, "primitives"];
const LIBRARY: &str = "library";
const INLINE: &str = "torch's decomposition";

/// Records why an operation is not lowered.
fn decide(op: Op, choice: &'static str, why: &'static str, pass: &Run) {
    if let Some(call) = AtenOp::cast(op) {
        pass.decide(pass.decision(op, call.schema(), choice, &CHOICES).because(why));
    }
}

/// Reshapes the values to the results' sizes if these are different expressions of equal sizes. Returns None if equality is not provable.
fn fitted(call: &Call, values: Vec<Value>) -> Option<Vec<Value>> {
    let fit = |(value, result): (Value, Value)| {
        let (from, to) = (value.ty(), result.ty());
        if from == to || !(from.is_open() || to.is_open()) {
            return Some(value);
        }
        let (sizes, wanted) = (from.dims(), to.dims());
        let same = |(size, wanted): (&Dim, &Dim)| call.surely(size, Relation::Eq, wanted.clone());
        let fits = from.element() == to.element() && sizes.len() == wanted.len() && sizes.iter().zip(&wanted).all(same);
        fits.then(|| call.e.reshape(value, &wanted))
    };
    values.into_iter().zip(call.op.results()).map(fit).collect()
}

/// Assigns an op emitted for another op to that op's `torch.utils.checkpoint` region.
fn recompute(op: Op, made: Op) {
    if let Some(checkpoint) = ops::RECOMPUTE.of(op) {
        ops::RECOMPUTE.set(made, checkpoint);
    }
}

/// Checks that the values that replace an op's results have the results' types.
fn check_types(op: Op, schema: &str, values: &[Value]) -> PassResult {
    let results = op.results();
    if results.len() != values.len() {
        return Err(PassError::at(op, format!("the lowering of {schema} gives {} values for {} results", values.len(), results.len())));
    }
    for (result, value) in results.iter().zip(values) {
        if result.ty() != value.ty() {
            return Err(PassError::at(op, format!("the lowering of {schema} gives {} for {}", value.ty(), result.ty())));
        }
    }
    Ok(())
}

/// Replaces the op's results by `values` and erases the op.
fn replace(op: Op, values: &[Value]) {
    for (result, &value) in op.results().into_iter().zip(values) {
        result.replace_all_uses_with(value);
    }
    op.erase();
}

/// Keeps the op, with the ops emitted for it as its body.
fn keep_call(op: Op, emitted: &[Op], values: &[Value]) {
    let (b, attrs) = (Builder::before(op), op.attrs());
    let mut attrs: Vec<_> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).filter(|(name, _)| *name != "decomposition").collect();
    if product::is_followed(op) {
        attrs.push(ops::FOLLOWED.with(op.ctx(), ()));
    }
    let results: Vec<_> = op.results().iter().map(|result| result.ty()).collect();
    let (kept, body) = b.op_with_body(AtenOp::NAME, &op.operands(), &results, &attrs, &[]);
    for &inner in emitted {
        inner.detach();
        body.append(inner);
    }
    YieldOp::build(&Builder::at_end(body, op.loc()), values);
    replace(op, &kept.results());
}

/// Copies the function's body before the op, at the op's location. Returns the values that the function returns, and the copies. Returns
/// None and copies nothing if the signature does not match the op, the function has no body, or the body has ops with regions.
fn inline(op: Op, function: Op) -> Option<(Vec<Value>, Vec<Op>)> {
    let body = function.body()?;
    let terminator = body.terminator()?;
    let types = |values: &[Value]| values.iter().map(|v| v.ty()).collect::<Vec<_>>();
    let (args, operands) = (body.args(), op.operands());
    if types(&args) != types(&operands) || types(&terminator.operands()) != types(&op.results()) {
        return None;
    }
    if body.ops().iter().any(|op| op.num_regions() > 0) {
        return None;
    }
    let builder = Builder::before(op);
    let mut map: HashMap<Value, Value> = args.into_iter().zip(operands).collect();
    let mut copies = Vec::new();
    let mapped = |map: &HashMap<Value, Value>, value: Value| map.get(&value).copied().unwrap_or(value);
    for inner in body.ops() {
        if inner == terminator {
            break;
        }
        let operands: Vec<_> = inner.operands().into_iter().map(|v| mapped(&map, v)).collect();
        let results: Vec<_> = inner.results().iter().map(|v| v.ty()).collect();
        let attrs = inner.attrs();
        let attrs: Vec<_> = attrs.iter().map(|(name, attr)| (name.as_str(), *attr)).collect();
        let copy = builder.op(&inner.name(), &operands, &results, &attrs);
        map.extend(inner.results().into_iter().zip(copy.results()));
        copies.push(copy);
    }
    Some((terminator.operands().into_iter().map(|v| mapped(&map, v)).collect(), copies))
}

/// Returns true if all sizes are given: as numbers, or as expressions if the lowering accepts these.
fn says_sizes(op: Op, takes: Takes) -> bool {
    let says = |value: &Value| !value.ty().is_open() || (takes == Takes::Symbols && value.ty().sizes().is_some());
    op.operands().iter().all(says) && op.results().iter().all(says)
}

/// Returns true if an op has complex operands or results.
fn has_complex(op: Op) -> bool {
    let is_complex = |value: &Value| value.ty().element().is_complex();
    op.operands().iter().any(is_complex) || op.results().iter().any(is_complex)
}

fn decomposition(op: Op) -> Option<String> {
    op.attr("decomposition")?.as_symbol()
}

/// Returns the value passed through by an op that only affects gradients.
fn without_gradient(op: Op) -> Option<Value> {
    match DynamoOp::of(op)? {
        DynamoOp::Detach(detach) => Some(detach.operand()),
        DynamoOp::History(history) => Some(history.value()),
        DynamoOp::Overwrite(overwrite) => Some(overwrite.value()),
        _ => None,
    }
}

fn is_private(function: Op) -> bool {
    function.attr_str("sym_visibility").as_deref() == Some("private")
}

#[cfg(test)]
mod tests {
    use super::lowered_schemas;
    use std::collections::HashSet;

    #[test]
    fn each_schema_has_one_place() {
        let mut seen = HashSet::new();
        for schema in lowered_schemas() {
            assert!(seen.insert(schema), "{schema} stands in two tables");
            assert_eq!(schema.split('.').count(), 3, "{schema} is not `aten.<op>.<overload>`");
        }
    }
}
