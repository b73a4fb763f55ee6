//! Converts mutating calls to calls of the variant that returns the new values.

use dynamlir_dialect::{
    ir::{Attr, Builder, Type, Value},
    ops::{AtenOp, FullOp},
    pass::PassError,
};
use dynamlir_shapes::Dimension;

use crate::emit::Emit;

/// A call of the functional variant of a mutating op.
///
/// It returns first what the mutating op returned as fresh tensors, then the new value of each written operand in
/// argument order.
pub struct FunctionalCall {
    pub schema: String,
    /// Operands of the mutating op that the variant takes.
    pub operands: Vec<usize>,
    pub args: Vec<Attr>,
    /// Operands of the mutating op that receive the new values.
    pub written: Vec<usize>,
}

impl FunctionalCall {
    /// Plans the functional call for `call`. `objects` identifies the operands that are the same tensor object.
    pub fn of(call: AtenOp, objects: &[Value]) -> Result<Self, PassError> {
        let (op, schema, mut args) = (call.op(), call.schema(), call.args());
        let mutates = operand_list(call.mutates());
        let functional = call
            .functional()
            .filter(|name| !name.is_empty())
            .or_else(|| without_underscore(&schema))
            .ok_or_else(|| PassError::at(op, format!("no functional variant of {schema}")))?;
        let mut written = Vec::new();
        for operand in args.iter().flat_map(|&arg| operands_of(arg)).filter(|operand| mutates.contains(operand)) {
            if written.iter().all(|&other: &usize| objects[other] != objects[operand]) {
                written.push(operand);
            }
        }
        if base_name(&functional) == base_name(&schema) {
            // `out=` tensors come last in the schema, in the order of the results. The same tensor may also be an earlier operand, which
            // the variant keeps.
            let mut outs = Vec::new();
            while let Some(last) = args.pop_if(|last| {
                let operands = operands_of(*last);
                outs.len() < written.len() && !operands.is_empty() && operands.iter().all(|o| mutates.contains(o))
            }) {
                outs.splice(0..0, operands_of(last));
            }
            if outs.len() != written.len() {
                return Err(PassError::at(op, format!("cannot tell which arguments of {schema} are outputs")));
            }
            written = outs;
        }
        let mut operands: Vec<_> = args.iter().flat_map(|&arg| operands_of(arg)).collect();
        operands.sort_unstable();
        operands.dedup();
        let args = args.iter().map(|&arg| renumber(arg, &operands)).collect();
        Ok(Self { schema: functional, operands, args, written })
    }
}

/// The new value of the operand of `copy_`, `fill_` and `zero_`, as primitives that ignore the old value.
pub fn overwritten(b: &Builder, call: AtenOp, operands: &[Value]) -> Option<Value> {
    let (schema, args, e) = (call.schema(), call.args(), Emit::new(*b));
    let target = operands.first()?.ty();
    if operands.iter().any(|value| value.ty().element().is_complex()) {
        // No primitive produces complex numbers, but copies of the same type are possible.
        let same = operands.len() == 2 && operands[1].ty() == target && schema == "aten.copy_.default";
        return same.then(|| operands[1]);
    }
    match schema.as_str() {
        "aten.zero_.default" => Some(FullOp::build(b, Attr::scalar(target.element(), 0.0), target).result()),
        "aten.fill_.Scalar" => Some(FullOp::build(b, scalar(target.element(), *args.get(1)?)?, target).result()),
        "aten.copy_.default" => {
            let source = *operands.get(args.get(1)?.as_operand()?)?;
            let (from, to) = (source.ty().dims(), target.dims());
            let lead = to.len().checked_sub(from.len())?;
            let value = e.convert(source, target.element());
            if to.iter().filter(|n| !n.is(1)).eq(from.iter().filter(|n| !n.is(1))) {
                return Some(e.reshape(value, &to));
            }
            let dims: Vec<_> = (lead as i64..to.len() as i64).collect();
            Some(e.broadcast(value, &to, &dims))
        }
        _ => None,
    }
}

/// Converts a Python number to an element; `None` if torch would have to round or refuse.
fn scalar(element: Type, value: Attr) -> Option<Attr> {
    if element.is_bool() {
        let truth = value.as_bool().or_else(|| value.as_i64().map(|v| v != 0)).or_else(|| value.as_f64().map(|v| v != 0.0))?;
        return Some(Attr::int_of(element, truth.into()));
    }
    if let Some(float) = value.as_f64() {
        return element.is_float().then(|| Attr::float_of(element, float));
    }
    let int = value.as_i64()?;
    if element.is_float() {
        // Eager rounds to the nearest double as well.
        #[expect(clippy::cast_precision_loss, reason = "as in eager")]
        return Some(Attr::float_of(element, int as f64));
    }
    let range = match (element.width(), element.is_unsigned()) {
        (64, _) => i64::MIN..=i64::MAX,
        (width, true) => 0..=(1 << width) - 1,
        (width, false) => -(1 << (width - 1))..=(1 << (width - 1)) - 1,
    };
    range.contains(&int).then(|| Attr::int_of(element, int))
}

/// The operand numbers listed by `aliases` or `mutates`; empty if the attribute is absent.
pub fn operand_list(named: Option<Vec<i64>>) -> Vec<usize> {
    named.into_iter().flatten().filter_map(|i| usize::try_from(i).ok()).collect()
}

/// The operands named in an argument, in order.
fn operands_of(arg: Attr) -> Vec<usize> {
    match (arg.as_operand(), arg.as_array()) {
        (Some(operand), _) => vec![operand],
        (None, Some(elements)) => elements.into_iter().flat_map(operands_of).collect(),
        (None, None) => Vec::new(),
    }
}

/// Returns the argument with operands renumbered by their position in `kept`.
fn renumber(arg: Attr, kept: &[usize]) -> Attr {
    match (arg.as_operand(), arg.as_array()) {
        (Some(operand), _) => kept.binary_search(&operand).map_or(arg, |i| Attr::operand(arg.ctx(), i)),
        (None, Some(elements)) => {
            let elements: Vec<_> = elements.into_iter().map(|element| renumber(element, kept)).collect();
            Attr::array(arg.ctx(), &elements)
        }
        (None, None) => arg,
    }
}

/// `aten.add_.Tensor` → `aten.add.Tensor`
fn without_underscore(schema: &str) -> Option<String> {
    let (namespace, rest) = schema.split_once('.')?;
    let (base, overload) = rest.split_once('.')?;
    let base = base.strip_suffix('_').filter(|base| !base.is_empty() && !base.ends_with('_'))?;
    Some(format!("{namespace}.{base}.{overload}"))
}

/// `aten.add.out` → `aten.add`
fn base_name(schema: &str) -> &str {
    schema.rsplit_once('.').map_or(schema, |(base, _)| base)
}
