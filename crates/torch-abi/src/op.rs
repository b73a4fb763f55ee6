//! Op calls, prepared once and called often: the choice of route, and the result handling that routes share.

use std::fmt;

use crate::cshim::ShimCall;
use crate::dispatcher::DispatcherCall;
use crate::{DType, Device, OwnedTensor, Signature, TensorRef, TorchAbi, TorchError};

/// One schema argument of an op; tensors are given by their index among the operands.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the values of the schema language")]
pub enum Arg {
    Operand(usize),
    List(Vec<Arg>),
    None,
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    DType(DType),
    Device(String),
    MemoryFormat(String),
    Layout(String),
}

/// The ways to call an op, cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Route {
    /// The op's own C function.
    CShim,
    /// torch's dispatcher through the C ABI.
    Dispatcher,
    /// A call of the Python operator.
    Python,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CShim => "c_shim",
            Self::Dispatcher => "dispatcher",
            Self::Python => "python",
        })
    }
}

enum Prepared {
    Shim(ShimCall),
    Dispatcher(DispatcherCall),
}

/// An op with all arguments fixed except the tensors, callable from any thread without Python.
pub struct OpCall {
    prepared: Prepared,
    operands: usize,
    outs: usize,
}

impl OpCall {
    /// Prepares a call for tensors of a device, by the first native route, at or after `first`, that can carry the arguments.
    ///
    /// `operands` are the tensors' element types. `outs` is the number of tensors to write results into, which must be zero or the op's
    /// number of results.
    ///
    /// The error lists the reason why each route is unavailable: the op then needs Python.
    pub fn prepare(
        abi: &TorchAbi,
        device: Device,
        first: Route,
        signature: &Signature,
        args: &[Arg],
        operands: &[DType],
        outs: usize,
    ) -> Result<Self, TorchError> {
        if signature.args.len() != args.len() {
            let (name, want, have) = (&signature.name, signature.args.len(), args.len());
            return Err(TorchError::new(format!("{name} takes {want} arguments, {have} are given")));
        }
        if let Some(i) = args.iter().find_map(|a| bad_operand(a, operands.len())) {
            return Err(TorchError::new(format!("{}: there is no operand {i}", signature.name)));
        }
        let mut why = String::new();
        if first == Route::CShim {
            match ShimCall::prepare(abi, device, signature, args, operands, outs) {
                Ok(shim) => {
                    return Ok(Self { prepared: Prepared::Shim(shim), operands: operands.len(), outs });
                }
                Err(e) => why = format!("c_shim: {e}; "),
            }
        }
        if first == Route::Python {
            return Err(TorchError::new("the plan asks for Python"));
        }
        match DispatcherCall::prepare(abi, signature, args) {
            Ok(call) => Ok(Self { prepared: Prepared::Dispatcher(call), operands: operands.len(), outs }),
            Err(e) => Err(TorchError::new(format!("{why}dispatcher: {e}"))),
        }
    }

    /// Returns the chosen route.
    #[must_use]
    pub fn route(&self) -> Route {
        match self.prepared {
            Prepared::Shim(_) => Route::CShim,
            Prepared::Dispatcher(_) => Route::Dispatcher,
        }
    }

    /// Calls the op. With `outs`, results are written into them and none are returned. An undefined result is `None`.
    ///
    /// Call it under [`BelowAutograd`](crate::BelowAutograd) unless autograd should see it.
    pub fn call(&self, abi: &TorchAbi, operands: &[TensorRef<'_>], outs: &[TensorRef<'_>]) -> Result<Vec<Option<OwnedTensor>>, TorchError> {
        if operands.len() != self.operands || outs.len() != self.outs {
            return Err(TorchError::new("an op call got another number of tensors than it was prepared for"));
        }
        let results = match &self.prepared {
            Prepared::Shim(shim) => shim.call(abi, operands, outs)?,
            Prepared::Dispatcher(call) => call.call(abi, operands)?,
        };
        if self.outs == 0 {
            return results.into_iter().map(|t| Ok(t.as_ref().is_defined()?.then_some(t))).collect();
        }
        // A C function with `out` parameters has already written its results and returns nothing.
        if !results.is_empty() && results.len() != outs.len() {
            return Err(TorchError::new(format!("{} tensors came back, {} were expected", results.len(), outs.len())));
        }
        for (out, result) in outs.iter().zip(&results) {
            let result = result.as_ref();
            // A copy would broadcast and convert.
            if result.sizes()? != out.sizes()? || result.dtype()? != out.dtype()? {
                return Err(TorchError::new(format!("a result of sizes {:?} is not what was expected", result.sizes()?)));
            }
            out.copy_from(result)?;
        }
        Ok(Vec::new())
    }
}

fn bad_operand(arg: &Arg, operands: usize) -> Option<usize> {
    match arg {
        Arg::Operand(i) if *i >= operands => Some(*i),
        Arg::List(items) => items.iter().find_map(|a| bad_operand(a, operands)),
        _ => None,
    }
}

/// Returns torch's number for a named memory format or layout.
pub(crate) fn enum_code(abi: &TorchAbi, arg: &Arg) -> Option<i32> {
    // SAFETY: getters without arguments.
    unsafe {
        match arg {
            Arg::DType(d) => Some(abi.codes.code(*d)),
            Arg::Layout(l) if l == "strided" => Some((abi.f.layout_strided)()),
            Arg::MemoryFormat(m) => match m.as_str() {
                "contiguous_format" => Some((abi.f.format_contiguous)()),
                "channels_last" => Some((abi.f.format_channels_last)()),
                "channels_last_3d" => Some((abi.f.format_channels_last_3d)()),
                "preserve_format" => Some((abi.f.format_preserve)()),
                _ => None,
            },
            _ => None,
        }
    }
}
