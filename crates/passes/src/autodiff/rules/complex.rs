//! Operators on complex numbers that the compiler itself emits: conversions to pairs of real numbers, windows, sums of gradients. The
//! program's own operators are recorded with torch's formulas.

use dynamlir_dialect::ir::Value;
use dynamlir_shapes::Window;

use crate::autodiff::{
    at::{At, Rule},
    aten::{Arg, args},
};

/// The rules of this file.
pub const TABLE: &[(&str, Rule)] = &[
    ("aten.view_as_real.default", view_as_real),
    ("aten.view_as_complex.default", view_as_complex),
    ("aten.as_strided_copy.default", as_strided_copy),
    ("aten.as_strided_scatter.default", as_strided_scatter),
    ("aten.add.Tensor", sum),
];

fn view_as_real(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    r.give(0, r.a.one("aten.view_as_complex.default", args![g], x.ty()))
}

fn view_as_complex(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    r.give(0, r.a.one("aten.view_as_real.default", args![g], x.ty()))
}

/// A window of a row-major value; declined if the window may contain an element twice.
fn as_strided_copy(r: &mut At) -> Option<()> {
    let (g, x) = (r.g()?, r.tensor(0)?);
    let window = window(r, 1)?;
    if window.may_repeat_in(r.a.scope).unwrap_or(true) {
        return None;
    }
    let zeros = r.a.zeros(x);
    r.give(0, r.a.one("aten.as_strided_scatter.default", &placed(&[zeros, g], window), x.ty()))
}

fn as_strided_scatter(r: &mut At) -> Option<()> {
    let (g, x, source) = (r.g()?, r.tensor(0)?, r.tensor(1)?);
    let window = window(r, 2)?;
    if r.needs(0) {
        let zeros = r.a.zeros(source);
        r.give(0, r.a.one("aten.as_strided_scatter.default", &placed(&[g, zeros], window.clone()), x.ty()))?;
    }
    if r.needs(1) {
        r.give(1, r.a.one("aten.as_strided_copy.default", &placed(&[g], window), source.ty()))?;
    }
    Some(())
}

/// The sum of two gradients of one value.
fn sum(r: &mut At) -> Option<()> {
    let (g, x, y) = (r.g()?, r.tensor(0)?, r.tensor(1)?);
    if x.ty() != g.ty() || y.ty() != g.ty() || r.c()?.int(2)? != 1 {
        return None;
    }
    r.give(0, g)?;
    r.give(1, g)
}

/// Reads the window from a call's arguments, starting at this one.
fn window(r: &At, from: usize) -> Option<Window> {
    let call = r.c()?;
    Some(Window { sizes: call.sizes(from)?, strides: call.sizes(from + 1)?, offset: call.size(from + 2)? })
}

/// Returns the arguments of a call on operands and a window of the first.
fn placed(operands: &[Value], window: Window) -> Vec<Arg> {
    let operands = operands.iter().map(|&value| Arg::from(value));
    operands.chain([Arg::Sizes(window.sizes), Arg::Sizes(window.strides), Arg::Size(window.offset)]).collect()
}
