//! Attention, where only the result is asked for. Whether code or the library computes it is for `dynamo-select`.

use dynamlir_dialect::ir::{Type, Value};

use super::{Call, Lowering, shape::row_major};
use crate::anchors::attention::Heads;

/// Schema and lowering. What is declined stays an extern call.
pub const TABLE: &[(&str, Lowering)] = &[("aten._scaled_dot_product_flash_attention_for_cpu.default", flash)];

/// `(query, key, value, dropout_p, is_causal, *, attn_mask, scale)`. The second result is for the way back alone.
fn flash(c: &Call) -> Option<Vec<Value>> {
    let operands = [c.tensor(0)?, c.tensor(1)?, c.tensor(2)?];
    let (query, result) = (operands[0].ty(), c.result_type(0));
    let single = |ty: Type| ty.element().is_float() && ty.element().width() == 32 && ty.rank() == 4;
    let drops = c.float(3)? != 0.0;
    (operands.iter().all(|operand| single(operand.ty())) && single(result) && !drops && !c.op.result(1).has_uses()).then_some(())?;
    let mask = if c.is_none(5) { None } else { Some(c.tensor(5).filter(|mask| mask.ty().element() == query.element())?) };
    let shape = query.dims();
    let scale = if c.is_none(6) { 1.0 / (shape.last()?.known()? as f64).sqrt() } else { c.float(6)? };
    let of_heads = [&shape[..3], &operands[1].ty().dims()[2..3]].concat();
    let mask = mask.map(|mask| c.e.broadcast_to(mask, &of_heads));
    let all: Vec<Value> = operands.into_iter().chain(mask).collect();
    let made = c.e.attention(&all, scale, c.bool(4)?, result);
    // Of other sizes there is a call of the library only.
    let strides: Vec<_> = all.iter().map(|value| value.ty().numbers().map(|sizes| row_major(&sizes))).collect::<Option<_>>()?;
    Heads::of(made.def()?, &strides)?;
    Some(vec![made, c.e.full(&c.result_dims(1), c.result_type(1).element(), 0.0)])
}
