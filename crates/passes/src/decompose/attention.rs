//! Attention whose second result is unused. `dynamo-select` decides whether generated code or the library computes it, except that
//! attention of a single query is lowered to sums here.

use dynamlir_dialect::ir::{Type, Value};
use dynamlir_shapes::Relation;

use super::{Call, Lowering, shape::row_major};
use crate::anchors::attention::Heads;

/// Lowerings by schema. A declined call stays an extern call.
pub const TABLE: &[(&str, Lowering)] = &[("aten._scaled_dot_product_flash_attention_for_cpu.default", flash)];

/// `(query, key, value, dropout_p, is_causal, *, attn_mask, scale)`. The second result is used by backward only.
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
    let sums = c.e.full(&c.result_dims(1), c.result_type(1).element(), 0.0);
    let causal = c.bool(4)?;
    if let Some(attended) = of_one_query(c, operands, mask, scale).filter(|_| !causal) {
        return Some(vec![attended, sums]);
    }
    let all: Vec<Value> = operands.into_iter().chain(mask).collect();
    let made = c.e.attention(&all, scale, causal, result);
    // Attention of any other size is only available as a library call.
    let strides: Vec<_> = all.iter().map(|value| value.ty().numbers().map(|sizes| row_major(&sizes))).collect::<Option<_>>()?;
    Heads::of(made.def()?, &strides)?;
    Some(vec![made, sums])
}

/// The maximum number of query heads that share a key head: code is emitted for each of them.
const MOST_SHARING: i64 = 4;

/// Attention of one query to keys whose count may be symbolic, as when a model generates a token. Each score is a sum along a line of
/// memory, and the result is a sum down the lines. Tiles would have nothing to share, so this runs at the speed of reading memory.
///
/// Measured on one core with AVX-512 against torch 2.15's flash attention, 4 to 32 heads, 33 to 2048 keys: 1.03 to 1.9 times as fast, and
/// faster than a kernel of `dynamo.attention`; 1.0 to 1.5 times as fast if 2 to 4 heads share keys.
fn of_one_query(c: &Call, operands: [Value; 3], mask: Option<Value>, scale: f64) -> Option<Value> {
    let [asked, keys, values] = operands.map(|operand| operand.ty().dims());
    let (heads, shared) = (asked[1].known()?, keys[1].known()?);
    let sharing = heads.checked_div(shared).filter(|sharing| sharing * shared == heads && (1..=MOST_SHARING).contains(sharing))?;
    // Without any keys there is no largest score.
    let some = c.surely(&keys[2], Relation::Ge, 1);
    let alike = asked[0] == keys[0] && keys[..3] == values[..3] && asked[3] == keys[3];
    (alike && some && asked[2].known() == Some(1)).then_some(())?;
    let [query, key, value] = operands;
    // Query heads that share a key head are adjacent. All first heads of these groups attend as if unshared, then all second heads, and so
    // on.
    let part = |of: Value, at: i64| if sharing == 1 { of } else { c.e.slice_dim(of, 1, at, sharing, shared) };
    let attended = (0..sharing).map(|at| {
        let one = attend(c, [part(query, at), key, value], mask.map(|mask| part(mask, at)), scale);
        c.e.unsqueeze(one, &[2])
    });
    let attended: Vec<Value> = attended.collect();
    Some(c.e.reshape(c.e.concat(&attended, 2), &c.result_dims(0)))
}

/// The scores whose maximum is taken, if there may be fewer of them than fit a vector. For so few scores eager's maximum ignores NaN, and
/// is -inf if all are NaN, so NaN is replaced by -inf here. In longer lines NaN is the maximum.
fn numbers_of_few(c: &Call, scores: Value) -> Option<Value> {
    let (keys, vector) = (&scores.ty().dims()[2], if c.wide { 16 } else { 8 });
    if c.surely(keys, Relation::Ge, vector) {
        return None;
    }
    let count = c.e.size(keys, scores.ty().with_element(Type::int(c.e.ctx(), 64)));
    let few = c.e.lt(count, c.e.full_like(count, vector));
    let skipped = c.e.and(few, c.e.ne(scores, scores));
    Some(c.e.select(skipped, c.e.full_like(scores, f64::NEG_INFINITY), scores))
}

/// Attention of one query per head. The result is indexed by batch, head and element.
fn attend(c: &Call, [query, key, value]: [Value; 3], mask: Option<Value>, scale: f64) -> Value {
    let (keys, values) = (key.ty().dims(), value.ty().dims());
    let products = c.e.mul(c.e.broadcast_to(query, &keys), key);
    let scores = c.e.sum(products, &[3], false);
    let scores = c.e.mul(scores, c.e.full_like(scores, scale));
    let scores = match mask {
        Some(mask) => c.e.add(scores, c.e.reshape(mask, &keys[..3])),
        None => scores,
    };
    let numbers = if mask.is_none() { numbers_of_few(c, scores) } else { None };
    let largest = c.e.reduce("max", numbers.unwrap_or(scores), &[2], true);
    // If all scores are masked or NaN, the exponentials are to be 0 instead of NaN, and so is the result.
    let masked = c.e.eq(largest, c.e.full_like(largest, f64::NEG_INFINITY));
    let largest = c.e.select(masked, c.e.full_like(largest, 0.0), largest);
    let weights = c.e.exp(c.e.sub(scores, c.e.broadcast_to(largest, &keys[..3])));
    let weights = match numbers {
        Some(_) => c.e.select(c.e.broadcast_to(masked, &keys[..3]), c.e.full_like(weights, 0.0), weights),
        None => weights,
    };
    let sum = c.e.sum(weights, &[2], true);
    let sum = c.e.select(masked, c.e.full_like(sum, 1.0), sum);
    let weighed = c.e.mul(c.e.broadcast_to(c.e.unsqueeze(weights, &[3]), &values), value);
    let total = c.e.sum(weighed, &[2], false);
    c.e.div(total, c.e.broadcast_to(sum, &total.ty().dims()))
}
