//! What the attributes of planned ops say: routes, operator arguments, outputs, places in the user's program.

use dynamlir_dialect::ir::{Attr, Op};
use dynamlir_runtime::{Const, Output};
use dynamlir_torch_abi::{Arg, DType, Route};

use crate::Error;

/// How many operands of `dynamo.extern` are written.
pub(super) fn out_count(op: Op) -> usize {
    let segments = op.attr("operandSegmentSizes").map(|a| a.to_string()).unwrap_or_default();
    segments.trim_end_matches('>').rsplit([',', ':']).next().and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

pub(super) fn route(op: Op) -> Route {
    let text = op.attr("route").map(|a| a.to_string()).unwrap_or_default();
    if text.contains("python") {
        Route::Python
    } else if text.contains("dispatcher") {
        Route::Dispatcher
    } else {
        Route::CShim
    }
}

/// `file:line` where the user called the op.
pub(crate) fn location(op: Op) -> String {
    let loc = op.loc();
    loc.line().map_or_else(|| loc.to_string(), |(file, line)| format!("{file}:{line}"))
}

/// An argument of an operator.
pub(super) fn arg(attr: Attr) -> Result<Arg, String> {
    if let Some(operand) = attr.as_operand() {
        return Ok(Arg::Operand(operand));
    }
    if let Some(list) = attr.as_array() {
        return Ok(Arg::List(list.into_iter().map(arg).collect::<Result<_, _>>()?));
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
        let name = ty.to_string();
        return DType::from_name(&name).map(Arg::DType).ok_or_else(|| format!("element type {name} is not torch's"));
    }
    let text = attr.to_string();
    let inner = |kind: &str| text.strip_prefix(&format!("#dynamo.{kind}<\""))?.strip_suffix("\">").map(str::to_owned);
    inner("device")
        .map(Arg::Device)
        .or_else(|| inner("memory_format").map(Arg::MemoryFormat))
        .or_else(|| inner("layout").map(Arg::Layout))
        .ok_or_else(|| format!("{text} is not an argument"))
}

/// `#dynamo.output<…>`.
pub(super) fn output(attr: Attr) -> Result<Output, Error> {
    let text = attr.to_string();
    let bad = || Error::Plan(format!("{text} is not an output"));
    let inner = text.strip_prefix("#dynamo.output<").and_then(|t| t.strip_suffix('>')).ok_or_else(bad)?;
    let (head, rest) = inner.split_once(',').unwrap_or((inner, ""));
    let mut words = head.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let index: i64 = words.next().map_or(Ok(0), str::parse).map_err(|_| bad())?;
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    let view = || -> Option<(Vec<i64>, Vec<i64>, i64)> {
        let (sizes, rest) = rest.trim().strip_prefix('[')?.split_once(']')?;
        let (strides, offset) = rest.trim().strip_prefix(',')?.trim().strip_prefix('[')?.split_once(']')?;
        let list =
            |text: &str| text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect::<Option<Vec<i64>>>();
        Some((list(sizes)?, list(strides)?, offset.trim().strip_prefix(',')?.trim().parse().ok()?))
    };
    Ok(match kind {
        "result" => Output::Result(at),
        "arg" => Output::Arg(at),
        "arg_view" => {
            let (sizes, strides, offset) = view().ok_or_else(bad)?;
            Output::ArgView { arg: at, sizes, strides, offset }
        }
        "result_view" => {
            let (sizes, strides, offset) = view().ok_or_else(bad)?;
            Output::ResultView { result: at, sizes, strides, offset }
        }
        "none" => Output::None,
        "same" => Output::Same(at),
        "constant" => Output::Const(Const::Int(index)),
        _ => return Err(bad()),
    })
}
