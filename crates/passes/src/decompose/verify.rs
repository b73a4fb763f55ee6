//! `dynamo-verify-prims`: the contract of stage 02, checked.
//!
//! Functions hold primitives, range checks and `dynamo.aten` ops without a decomposition, whose code holds the same; 16-bit floats are computed with as
//! `f32`; integers are divided by constants only, since eager raises on a divisor of 0.

use dynamlir_dialect::{
    ir::{Attr, Block, Op, Type, Value},
    pass::{Pass, PassError, PassResult, Run},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-verify-prims",
    description: "Check that a module is at stage 02: primitives and extern calls on builtin tensors",
    options: &[],
    statistics: &[],
    run,
};

/// Ops of the dialect that belong to later stages, pure or not.
const LATER: &[&str] = &["dynamo.workspace", "dynamo.buffer"];

/// Elementwise ops that move values without computing with them.
const MOVING: &[&str] = &["dynamo.select", "dynamo.convert", "dynamo.bitcast"];

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
    let fail = |message: &str| Err(PassError::at(op, format!("not primitive: {message}")));
    let args = op.body().map(Block::args).unwrap_or_default();
    if op.results().into_iter().chain(args).any(|value| value.ty().is_mutable()) {
        return fail("a value is a !dynamo.tensor");
    }
    let name = op.name();
    match name.as_str() {
        "builtin.module" | "func.func" | "func.return" | "dynamo.check_range" | "dynamo.yield" => return Ok(()),
        "dynamo.aten" => {
            let left = ["decomposition", "aliases", "mutates", "functional"].into_iter().find(|name| op.attr(name).is_some());
            return left.map_or(Ok(()), |name| fail(&format!("an extern op has '{name}'")));
        }
        _ => {}
    }
    if !name.starts_with("dynamo.") || !op.is_pure() || LATER.contains(&name.as_str()) {
        return fail(&format!("'{name}' is no primitive"));
    }
    let element = |value: &Value| value.ty().element();
    let computes = op.is_elementwise() && !MOVING.contains(&name.as_str());
    let combines = match name.as_str() {
        "dynamo.scatter" => op.attr("kind").is_some(),
        name => ["dynamo.reduce", "dynamo.arg_reduce", "dynamo.scan"].contains(&name),
    };
    if (computes || combines) && op.operands().iter().map(element).any(is_half) {
        return fail("arithmetic on 16-bit floats");
    }
    if ["dynamo.div", "dynamo.rem"].contains(&name.as_str()) && element(&op.operand(0)).is_int() && !is_nonzero(op.operand(1)) {
        return fail("an integer divisor that is not a constant other than 0");
    }
    Ok(())
}

fn is_half(element: Type) -> bool {
    element.is_float() && element.width() == 16
}

fn is_nonzero(divisor: Value) -> bool {
    let constant = divisor.def().filter(|op| op.is("dynamo.full")).and_then(|op| op.attr("value"));
    constant.and_then(Attr::as_i64).is_some_and(|value| value != 0)
}
