//! `dynamo-verify-functional`: the contract of stage 01, checked.
//!
//! After functionalization no value is a `!dynamo.tensor`, no `dynamo.aten` aliases or mutates, each says which
//! layouts eager saw, and the graph function says how its results become the user's outputs. What the single attributes may
//! say is checked by the dialect.

use dynamlir_dialect::{
    ir::{Attr, Block, Op},
    pass::{Pass, PassError, PassResult, Run},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-verify-functional",
    description: "Check that a module is at stage 01: value semantics, layouts and outputs as attributes",
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
    if op.is("dynamo.aten") {
        for name in ["aliases", "mutates", "functional"] {
            if op.attr(name).is_some() {
                return fail(&format!("an op has '{name}'"));
            }
        }
        for (name, ranks) in [("operand_strides", ranks(&op.operands())), ("result_strides", ranks(&op.results()))] {
            let given = op.attr(name).and_then(Attr::as_array).unwrap_or_default();
            let given: Vec<_> = given.into_iter().map(|strides| strides.as_i64s().map(|strides| strides.len())).collect();
            if op.attr(name).is_none() || given != ranks {
                return fail(&format!("'{name}' must have the strides of each tensor"));
            }
        }
    }
    if op.is("func.func") && op.attr("dynamo.entry").is_some() { check_entry(op) } else { Ok(()) }
}

fn ranks(values: &[dynamlir_dialect::ir::Value]) -> Vec<Option<usize>> {
    values.iter().map(|value| Some(value.ty().rank())).collect()
}

fn check_entry(func: Op) -> PassResult {
    let fail = |message: &str| Err(PassError::at(func, format!("not functional: {message}")));
    let ty = func.attr("function_type").and_then(Attr::as_type);
    let (inputs, results) = ty.map(|ty| (ty.function_inputs(), ty.function_results())).unwrap_or_default();
    let args = dicts(func, "arg_attrs");
    let is_described = |attrs: &Attr| attrs.get("dynamo.strides").is_some() && attrs.get("dynamo.offset").is_some();
    if args.len() != inputs.len() || !args.iter().all(is_described) {
        return fail("each argument needs dynamo.strides and dynamo.offset");
    }
    let mutated = |attrs: &Attr| attrs.get("dynamo.mutates").and_then(Attr::as_i64);
    let res = dicts(func, "res_attrs");
    if res.len() != results.len() || !res.iter().all(|attrs| mutated(attrs).is_some() != attrs.get("dynamo.strides").is_some()) {
        return fail("each result needs either dynamo.strides or dynamo.mutates");
    }
    if func.attr("dynamo.outputs").is_none() {
        return fail("no dynamo.outputs");
    }
    Ok(())
}

fn dicts(func: Op, name: &str) -> Vec<Attr> {
    func.attr(name).and_then(Attr::as_array).unwrap_or_default()
}
