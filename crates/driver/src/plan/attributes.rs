//! Reads the attributes of planned ops: routes, operator arguments, outputs, locations in the user's program.

use dynamlir_dialect::{
    ir::{self, Attr, AttrValue, Device, MemoryFormat, Op, Type},
    ops,
};
use dynamlir_runtime::{Const, Output, PlanSlot};
use dynamlir_shapes::{Dim, Window};
use dynamlir_torch_abi::{Arg, DType, Route};

use super::open::Opened;
use crate::Error;

/// torch's name for the way in which an operator is called.
pub(super) fn route(route: ops::Route) -> Route {
    match route {
        ops::Route::CShim => Route::CShim,
        ops::Route::Dispatcher => Route::Dispatcher,
        ops::Route::Python => Route::Python,
    }
}

/// torch's element type, if it has this one.
pub(super) fn dtype(ty: Type) -> Option<DType> {
    Some(match (ty.width(), ty.is_unsigned()) {
        (128, false) if ty.is_complex() => DType::C128,
        (64, false) if ty.is_complex() => DType::C64,
        (16, false) if ty.is_bf16() => DType::BF16,
        (16, false) if ty.is_f16() => DType::F16,
        (64, false) if ty.is_f64() => DType::F64,
        (32, false) if ty.is_f32() => DType::F32,
        (64, false) if ty.is_int() => DType::I64,
        (32, false) if ty.is_int() => DType::I32,
        (16, false) if ty.is_int() => DType::I16,
        (8, false) if ty.is_int() => DType::I8,
        (8, true) => DType::U8,
        (1, false) if ty.is_int() => DType::Bool,
        _ => return None,
    })
}

/// The `file:line` where the user called the op.
pub(crate) fn location(op: Op) -> String {
    let loc = op.loc();
    loc.line().map_or_else(|| loc.to_string(), |(file, line)| format!("{file}:{line}"))
}

/// An argument of an operator that is neither a list nor an expression.
pub(super) fn arg(attr: Attr) -> Result<Arg, String> {
    if let Some(operand) = attr.as_operand() {
        return Ok(Arg::Operand(operand));
    }
    if attr.is_unit() {
        return Ok(Arg::None);
    }
    if let Some(value) = attr.as_bool() {
        return Ok(Arg::Bool(value));
    }
    if let Some(value) = attr.as_i64() {
        return Ok(Arg::Int(value));
    }
    if let Some(value) = attr.as_f64() {
        return Ok(Arg::Float(value));
    }
    if let Some(value) = attr.as_str() {
        return Ok(Arg::Str(value));
    }
    if let Some(ty) = attr.as_type() {
        return dtype(ty).map(Arg::DType).ok_or_else(|| format!("element type {ty} is not torch's"));
    }
    let device = Device::read(attr).map(|Device(text)| Arg::Device(text));
    device
        .or_else(|| MemoryFormat::read(attr).map(|MemoryFormat(text)| Arg::MemoryFormat(text)))
        .or_else(|| ir::Layout::read(attr).map(|ir::Layout(text)| Arg::Layout(text)))
        .ok_or_else(|| format!("{attr} is not an argument"))
}

/// `#dynamo.output<…>`.
pub(super) fn output(attr: Attr, number: usize, opened: &mut Opened) -> Result<Output, Error> {
    let output = ir::Output::read(attr).ok_or_else(|| Error::Plan(format!("{attr} is not an output")))?;
    let mut numbers = |view: Window<Dim>| {
        let fault = |what| Error::Plan(format!("{attr} {what}"));
        opened.window(&view, |part| PlanSlot::Output(number, part)).map_err(fault)
    };
    Ok(match output {
        ir::Output::Result(result) => Output::Result(result),
        ir::Output::Arg(arg) => Output::Arg(arg),
        ir::Output::ArgView(arg, view) => {
            let view = numbers(view)?;
            Output::ArgView { arg, sizes: view.sizes, strides: view.strides, offset: view.offset }
        }
        ir::Output::ResultView(result, view) => {
            let view = numbers(view)?;
            Output::ResultView { result, sizes: view.sizes, strides: view.strides, offset: view.offset }
        }
        ir::Output::None => Output::None,
        ir::Output::Same(output) => Output::Same(output),
        ir::Output::Constant(value) => Output::Const(Const::Int(value)),
    })
}
