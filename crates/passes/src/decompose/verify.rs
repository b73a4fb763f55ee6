//! `dynamo-verify-prims`: checks the contract of stage 02.
//!
//! Functions contain primitives, range checks, and `dynamo.aten` ops without a decomposition, whose bodies obey the same rules. 16-bit
//! floats are computed in `f32`. Integers are divided by nonzero constants only, since eager raises on a divisor of 0.

use dynamlir_dialect::{
    ir::{Block, Op, Type, Value},
    ops::{AtenOp, DynamoOp, DynamoOp as D, FullOp},
    pass::{Pass, PassError, PassResult, Run, Takes},
    upstream::{MODULE, func},
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-verify-prims",
    description: "Check that a module is at stage 02: primitives and extern calls on builtin tensors",
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
    let fail = |message: &str| Err(PassError::at(op, format!("not primitive: {message}")));
    let args = op.body().map(Block::args).unwrap_or_default();
    if op.results().into_iter().chain(args).any(|value| value.ty().is_mutable()) {
        return fail("a value is a !dynamo.tensor");
    }
    if [MODULE, func::FUNC, func::RETURN].iter().any(|name| op.is(name)) {
        return Ok(());
    }
    let not_primitive = || fail(&format!("'{}' is not a primitive", op.name()));
    let computes = match DynamoOp::of(op) {
        Some(D::CheckRange(_) | D::Yield(_)) => return Ok(()),
        Some(D::Aten(call)) => return extern_call(call).map_or(Ok(()), |name| fail(&format!("an extern op has '{name}'"))),
        // Memory belongs to later stages, even in pure ops; the ops for gradients belong to earlier ones.
        None | Some(D::Workspace(_) | D::Buffer(_) | D::Detach(_) | D::History(_) | D::Overwrite(_)) => return not_primitive(),
        Some(_) if !op.is_pure() => return not_primitive(),
        // These copy values without computing with them.
        Some(D::Select(_) | D::Convert(_) | D::Bitcast(_)) => false,
        Some(D::Scatter(scatter)) => scatter.kind().is_some(),
        Some(D::Reduce(_) | D::ArgReduce(_) | D::Scan(_)) => true,
        Some(D::Div(_) | D::Rem(_)) if op.operand(0).ty().element().is_int() && !is_nonzero(op.operand(1)) => {
            return fail("an integer divisor that is not a constant other than 0");
        }
        Some(_) => op.is_elementwise(),
    };
    if computes && op.operands().iter().any(|operand| is_half(operand.ty().element())) {
        return fail("arithmetic on 16-bit floats");
    }
    Ok(())
}

/// Returns an attribute of the call that is only allowed in earlier stages.
fn extern_call(call: AtenOp) -> Option<&'static str> {
    let said = [
        ("decomposition", call.decomposition().is_some()),
        ("vjp", call.vjp().is_some()),
        ("aliases", call.aliases().is_some()),
        ("mutates", call.mutates().is_some()),
        ("functional", call.functional().is_some()),
    ];
    said.into_iter().find_map(|(name, is_said)| is_said.then_some(name))
}

fn is_half(element: Type) -> bool {
    element.is_float() && element.width() == 16
}

fn is_nonzero(divisor: Value) -> bool {
    FullOp::defining(divisor).and_then(|full| full.value().as_i64()).is_some_and(|value| value != 0)
}
