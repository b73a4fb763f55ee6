//! `dynamo-at`: specializes a program to the values of its symbols in one call (stages 00 to 03).
//!
//! Before, with `symbols="s0=3"`: `func.func @main(%x: tensor<?x4xf32, #dynamo.sizes<s0, 4>>) attributes {dynamo.symbols = […], …}`
//!
//! After: `func.func @main(%x: tensor<3x4xf32>) attributes {…}`
//!
//! The result is the program as it would have been written for these sizes. So `dynamo-at` commutes with any pass before the plan, which is
//! how passes on expressions are tested. Values that the declarations of symbols do not allow are refused, and so are kernels in memory,
//! which take sizes as arguments.

use dynamlir_dialect::{
    ir::{Attr, AttrValue, Block, Op, Output, Type, Value, sizes},
    ops,
    pass::{Options, Pass, PassError, PassResult, Run, Takes},
    pass_options,
    upstream::func,
};
use dynamlir_shapes::{Bindings, Dim, ShapeError, Symbol};

/// The pass.
pub const PASS: Pass = Pass {
    name: "dynamo-at",
    description: "Replace the symbols in sizes by numbers",
    takes: Takes::Symbols,
    options: AtOptions::DECLARED,
    statistics: &[],
    run,
};

pass_options! {
    /// Options of `dynamo-at`.
    pub struct AtOptions {
        /// the value of each symbol: s0=3,s1=4
        symbols: String = String::new(),
    }
}

fn run(module: Op, pass: &Run) -> PassResult {
    let options: AtOptions = pass.options()?;
    let values = bindings(&options.symbols).ok_or_else(|| PassError::module(format!("expected s0=3,s1=4, got {}", options.symbols)))?;
    let mut ops = Vec::new();
    module.walk(&mut |op| ops.push(op));
    for &function in ops.iter().filter(|op| op.is(func::FUNC)) {
        if !sizes::scope(function)
            .symbols()
            .all(|(symbol, info)| values.get(symbol).is_none_or(|value| info.range.contains(value) && value % info.divisor == 0))
        {
            return Err(PassError::at(function, format!("what it declares of its symbols does not allow {}", options.symbols)));
        }
        let assumed = sizes::assumed(function).map_err(|fault| PassError::at(function, fault))?;
        if let Some(broken) = assumed.iter().find(|predicate| predicate.holds(&values) == Ok(false)) {
            return Err(PassError::at(function, format!("what it assumes of its symbols, {broken}, does not hold")));
        }
        ops::SYMBOLS.remove(function);
        ops::ASSUMED.remove(function);
    }
    ops.into_iter().try_for_each(|op| at_op(op, &values).map_err(|fault| PassError::at(op, fault)))
}

/// `s0=3,s1=4`
fn bindings(text: &str) -> Option<Bindings> {
    let one = |pair: &str| {
        let (symbol, value) = pair.split_once('=')?;
        Some((Symbol(symbol.trim().strip_prefix('s')?.parse().ok()?), value.trim().parse().ok()?))
    };
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(one).collect()
}

fn at_op(op: Op, values: &Bindings) -> Result<(), String> {
    let retype = |value: Value| -> Result<(), String> {
        let (old, new) = (value.ty(), at_type(value.ty(), values)?);
        if old != new {
            value.set_type(new);
        }
        Ok(())
    };
    let blocks = (0..op.num_regions()).flat_map(|region| op.region(region).blocks());
    op.results().into_iter().chain(blocks.flat_map(Block::args)).try_for_each(retype)?;
    for (name, old) in op.attrs() {
        let new = at_attr(old, values)?;
        if old != new {
            op.set_attr(&name, new);
        }
    }
    Ok(())
}

fn at_type(ty: Type, values: &Bindings) -> Result<Type, String> {
    let fault = |error: ShapeError| error.to_string();
    if ty.is_mutable() {
        let window = ty.window(&dynamlir_shapes::Scope::new()).ok_or_else(|| format!("{ty} does not say its sizes"))?;
        let window = window.at(values).map_err(fault)?;
        return Ok(Type::mutable(&window.sizes, ty.element(), &window.strides, window.offset));
    }
    if ty.is_tensor() && ty.is_open() {
        let sizes = ty.sizes().ok_or_else(|| format!("{ty} does not say its sizes"))?;
        let sizes = sizes.iter().map(|size| size.at(values)).collect::<Result<Vec<_>, _>>().map_err(fault)?;
        return Ok(Type::tensor(&sizes, ty.element()));
    }
    if ty.is_memref() && ty.is_open() {
        return Err(format!("{ty} is memory, whose sizes are arguments"));
    }
    if ty.is_function() {
        let all = |types: Vec<Type>| types.into_iter().map(|ty| at_type(ty, values)).collect::<Result<Vec<_>, _>>();
        return Ok(Type::function(ty.ctx(), &all(ty.function_inputs())?, &all(ty.function_results())?));
    }
    Ok(ty)
}

fn at_attr(attr: Attr, values: &Bindings) -> Result<Attr, String> {
    let (ctx, fault) = (attr.ctx(), |error: ShapeError| error.to_string());
    if let Some(size) = Dim::read(attr) {
        return Ok(Dim::write(ctx, &size.at(values).map_err(fault)?.into()));
    }
    if let Some(sizes) = Vec::<Dim>::read(attr) {
        let sizes = sizes.iter().map(|size| size.at(values).map(Dim::from)).collect::<Result<Vec<_>, _>>().map_err(fault)?;
        return Ok(Vec::<Dim>::write(ctx, &sizes));
    }
    if let Some(output) = Output::read(attr) {
        let output = match output {
            Output::ArgView(arg, view) => Output::ArgView(arg, view.at(values).map_err(fault)?.into()),
            Output::ResultView(result, view) => Output::ResultView(result, view.at(values).map_err(fault)?.into()),
            other => other,
        };
        return Ok(Output::write(ctx, &output));
    }
    if let Some(ty) = attr.as_type() {
        return Ok(at_type(ty, values)?.as_attr());
    }
    if let Some(elements) = attr.as_array() {
        let elements = elements.into_iter().map(|element| at_attr(element, values)).collect::<Result<Vec<_>, _>>()?;
        return Ok(Attr::array(ctx, &elements));
    }
    let entries = attr.entries();
    if !entries.is_empty() {
        let entries = entries.into_iter().map(|(name, entry)| Ok((name, at_attr(entry, values)?))).collect::<Result<Vec<_>, String>>()?;
        return Ok(Attr::dict(ctx, &entries.iter().map(|(name, entry)| (name.as_str(), *entry)).collect::<Vec<_>>()));
    }
    Ok(attr)
}
