//! `dynamo-verify-functional`: checks the contract of stage 01.
//!
//! After functionalization no value is a `!dynamo.tensor`, and no `dynamo.aten` aliases or mutates. Each `dynamo.aten` records the layouts
//! seen by eager, and the graph function specifies how its results become the user's outputs. The dialect checks the contents of the
//! individual attributes.

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Op, Value},
    ops::{self, AtenOp},
    pass::{Pass, PassError, PassResult, Run, Takes},
    upstream::func::{self, function_type},
};
use dynamlir_shapes::Dim;

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-verify-functional",
    description: "Check that a module is at stage 01: value semantics, layouts and outputs as attributes",
    takes: Takes::Symbols,
    options: &[],
    statistics: &[],
    run,
};

fn run(module: Op, _run: &Run) -> PassResult {
    let mut outcome = Ok(());
    module.walk(&mut |op| {
        if outcome.is_ok() {
            outcome = check(op);
        }
    });
    outcome
}

fn check(op: Op) -> PassResult {
    let fail = |message: &str| Err(PassError::at(op, format!("not functional: {message}")));
    let args = op.body().map(Block::args).unwrap_or_default();
    if op.results().into_iter().chain(args).any(|value| value.ty().is_mutable()) {
        return fail("a value is a !dynamo.tensor");
    }
    if let Some(call) = AtenOp::cast(op) {
        let effects =
            [("aliases", call.aliases().is_some()), ("mutates", call.mutates().is_some()), ("functional", call.functional().is_some())];
        if let Some((name, _)) = effects.iter().find(|(_, is_there)| *is_there) {
            return fail(&format!("an op has '{name}'"));
        }
        let lists = [("operand_strides", call.operand_strides(), call.inputs()), ("result_strides", call.result_strides(), call.outputs())];
        for (name, given, values) in lists {
            let given = given.map(|all| all.into_iter().map(|strides| Vec::<Dim>::read(strides).map(|strides| strides.len())).collect());
            if given != Some(ranks(&values)) {
                return fail(&format!("'{name}' must have the strides of each tensor"));
            }
        }
    }
    if op.is(func::FUNC) && ops::ENTRY.is_on(op) { check_entry(op) } else { Ok(()) }
}

fn ranks(values: &[Value]) -> Vec<Option<usize>> {
    values.iter().map(|value| Some(value.ty().rank())).collect()
}

fn check_entry(func: Op) -> PassResult {
    let fail = |message: &str| Err(PassError::at(func, format!("not functional: {message}")));
    let ty = function_type(func);
    let args = dicts(func, "arg_attrs");
    let is_described = |attrs: &Attr| ops::STRIDES.dims().within(*attrs).is_some() && ops::OFFSET.dim().within(*attrs).is_some();
    if args.len() != ty.function_inputs().len() || !args.iter().all(is_described) {
        return fail("each argument needs dynamo.strides and dynamo.offset");
    }
    let res = dicts(func, "res_attrs");
    let is_one = |attrs: &Attr| ops::MUTATES.within(*attrs).is_some() != ops::STRIDES.dims().within(*attrs).is_some();
    if res.len() != ty.function_results().len() || !res.iter().all(is_one) {
        return fail("each result needs either dynamo.strides or dynamo.mutates");
    }
    if !ops::OUTPUTS.is_on(func) {
        return fail("no dynamo.outputs");
    }
    Ok(())
}

/// A function without such attributes has no list at all.
fn dicts(func: Op, name: &str) -> Vec<Attr> {
    func.optional(name).unwrap_or_default()
}
