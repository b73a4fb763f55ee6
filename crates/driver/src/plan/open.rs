//! The numbers of a plan that are expressions, and the windows of planned ops.

use dynamlir_dialect::{
    ir::{
        Attr, AttrValue, DYNAMIC, Op, Type,
        sizes::{SymbolSite, assumed, declared, scope},
    },
    ops::{self, DynamoOp, ExternOp},
};
use dynamlir_runtime::{LayoutField, Open, PlanSlot, Varying};
use dynamlir_shapes::{Bindings, Dim, Scope, SymbolInfo, Window, row_major_in};
use dynamlir_torch_abi::Arg;

use super::attributes::arg;

/// An entry's symbols, and the numbers that depend on them.
pub(super) struct Opened {
    /// The symbols' declarations.
    pub scope: Scope,
    /// The values of the symbols that the plan uses.
    values: Bindings,
    pub open: Open,
}

impl Opened {
    /// Reads the symbols that an entry declares. Each is a size of an argument.
    pub fn of(main: Op) -> Result<Self, String> {
        let varying = declared(main).into_iter().map(|declared| match declared.place {
            Some(SymbolSite::Size { argument, dim }) => Ok(Varying { symbol: declared.symbol, input: argument, dim, info: declared.info }),
            _ => Err(format!("expected {} to be a size of an argument: a plan is called with tensors", declared.symbol)),
        });
        let varying = varying.collect::<Result<Vec<_>, _>>()?;
        let values = varying.iter().map(|varying| (varying.symbol, usual(&varying.info))).collect();
        Ok(Self { scope: scope(main), values, open: Open::new(varying, assumed(main)?) })
    }

    /// The value of a size in the plan; records the size if it is an expression.
    pub fn number(&mut self, size: &Dim, number: impl FnOnce() -> PlanSlot) -> Result<i64, String> {
        if let Some(known) = size.known() {
            return Ok(known);
        }
        let value = size.at(&self.values).map_err(|error| error.to_string())?;
        self.open.note(number(), size.clone());
        Ok(value)
    }

    /// The value of a window in the plan.
    pub fn window(&mut self, window: &Window<Dim>, number: impl Fn(LayoutField) -> PlanSlot) -> Result<Window<i64>, String> {
        let mut all = |dims: &[Dim], part: fn(usize) -> LayoutField| {
            dims.iter().enumerate().map(|(dim, size)| self.number(size, || number(part(dim)))).collect::<Result<Vec<_>, _>>()
        };
        let (sizes, strides) = (all(&window.sizes, LayoutField::Size)?, all(&window.strides, LayoutField::Stride)?);
        Ok(Window { sizes, strides, offset: self.number(&window.offset, || number(LayoutField::Offset))? })
    }

    /// An argument of extern call `call`, at a position in its lists.
    pub fn argument(&mut self, attr: Attr, call: usize, place: Vec<usize>) -> Result<Arg, String> {
        if let Some(size) = Dim::read(attr).filter(|size| size.known().is_none()) {
            return self.number(&size, || PlanSlot::ExternArg(call, place)).map(Arg::Int);
        }
        let Some(list) = attr.as_array() else { return arg(attr) };
        let inside = |at: usize| [&place[..], &[at]].concat();
        let elements = list.into_iter().enumerate().map(|(at, attr)| self.argument(attr, call, inside(at)));
        elements.collect::<Result<_, _>>().map(Arg::List)
    }
}

/// A possible value of a symbol: its hint, if it has one.
fn usual(info: &SymbolInfo) -> i64 {
    let (least, divisor) = (info.range.lower().unwrap_or(0).max(0), info.divisor.max(1));
    info.hint.unwrap_or_else(|| least + (divisor - least % divisor) % divisor)
}

/// The window of a planned op's only result.
pub(super) fn window_of(op: Op, scope: &Scope) -> Option<Window<Dim>> {
    let ty = op.result(0).ty();
    let (sizes, strides) = match DynamoOp::of(op) {
        Some(DynamoOp::Buffer(buffer)) => (buffer.sizes(), buffer.strides()),
        Some(DynamoOp::OutputBuffer(buffer)) => (buffer.sizes(), buffer.strides()),
        Some(DynamoOp::View(view)) => return Window::new(view.sizes_dims(), view.strides_dims(), view.offset_dims()).ok(),
        _ => (None, None),
    };
    said(ty, sizes, strides, None, scope)
}

/// The window of an entry's argument.
pub(super) fn argument(main: Op, argument: usize, ty: Type, scope: &Scope) -> Option<Window<Dim>> {
    let (sizes, strides) = (ops::SIZES.dims().of_arg(main, argument), ops::STRIDES.dims().of_arg(main, argument));
    said(ty, sizes, strides, ops::OFFSET.dim().of_arg(main, argument), scope)
}

/// The window of a tensor that an extern op creates.
pub(super) fn extern_result(call: ExternOp, result: usize, ty: Type) -> Option<Window<Dim>> {
    let list = |lists: Option<Vec<Attr>>| lists.and_then(|lists| <Vec<Dim>>::read(*lists.get(result)?));
    said(ty, list(call.sizes()), list(call.strides()), None, &Scope::new())
}

/// The window of a memref's type; where the type is dynamic, the separately given sizes, strides and offset apply. Missing strides are
/// row-major.
fn said(ty: Type, sizes: Option<Vec<Dim>>, strides: Option<Vec<Dim>>, offset: Option<Dim>, scope: &Scope) -> Option<Window<Dim>> {
    if let Some(window) = ty.window(scope) {
        return Some(window);
    }
    let (own, own_offset) = ty.strided()?;
    let known = |number: i64| (number != DYNAMIC).then(|| Dim::from(number));
    let sizes = sizes.or_else(|| ty.sizes())?;
    let all: Option<Vec<Dim>> = own.into_iter().map(known).collect();
    let strides = all.or(strides).or_else(|| row_major_in(&sizes, scope).ok())?;
    Window::new(sizes, strides, known(own_offset).or(offset)?).ok()
}
