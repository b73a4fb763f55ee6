//! Extern calls: choosing a route when the plan is loaded, calling, and converting results to what the plan expects.

use std::any::Any;

use dynamlir_torch_abi::{Base, BelowAutograd, DType, Device, OpCall, OwnedTensor, Route, Signature, TensorRef, TorchAbi, TorchError};

use crate::Layout;
use crate::lower::ExternStep;
use crate::plan::ExternCall;

/// A Python call that raised.
pub struct PythonError {
    /// The exception as text.
    pub message: String,
    /// The exception itself, so that it can be raised again.
    pub payload: Option<Box<dyn Any + Send>>,
}

/// The runtime's requests to Python. Implemented where the GIL is held.
pub trait PythonCalls {
    /// Returns the text of an op's schema as torch prints it, for `aten.cat.default`. Called when a plan is loaded.
    fn signature(&mut self, schema: &str) -> Option<String>;

    /// Calls the op in Python and returns its tensors in order, None for each that is undefined.
    ///
    /// Operands are borrowed for the length of the call; the results are new references.
    fn call(&mut self, call: &ExternCall, operands: &[TensorRef<'_>]) -> Result<Vec<Option<OwnedTensor>>, PythonError>;
}

/// The route of one extern call, and the reason that it is not a cheaper one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternReport {
    /// `aten.cat.default`.
    pub schema: String,
    /// The place of its call in the user's program.
    pub location: String,
    /// The route taken.
    pub route: Route,
    /// The reason that native routes are unavailable; empty for a native route.
    pub reason: String,
}

/// An extern step ready to be called; without a native call it goes through Python.
pub(crate) struct Prepared {
    native: Option<OpCall>,
    signature: Result<Signature, TorchError>,
    pub report: ExternReport,
    /// True for ops that are not torch's own. They may keep an operand, so they must not receive memory that is reused.
    lend_copies: bool,
}

impl Prepared {
    /// Prepares a call, or returns the reason that it is impossible.
    pub(crate) fn new(
        abi: &TorchAbi,
        device: Device,
        call: &ExternCall,
        step: &ExternStep,
        py: &mut dyn PythonCalls,
    ) -> Result<Self, String> {
        let text = py.signature(&call.schema).ok_or_else(|| format!("torch has no operator {}", call.schema))?;
        let signature = Signature::parse(&text);
        if let Ok(signature) = &signature {
            check(call, step, signature)?;
        }
        Ok(Self::with(abi, device, call, step, signature))
    }

    /// Prepares the same call for other arguments.
    pub(crate) fn again(&self, abi: &TorchAbi, device: Device, call: &ExternCall, step: &ExternStep) -> Self {
        Self::with(abi, device, call, step, self.signature.clone())
    }

    fn with(abi: &TorchAbi, device: Device, call: &ExternCall, step: &ExternStep, signature: Result<Signature, TorchError>) -> Self {
        let native = signature.clone().and_then(|signature| native(abi, device, call, step, &signature));
        let (route, reason) = match &native {
            Ok(op) => (op.route(), String::new()),
            Err(e) => (Route::Python, e.message().to_owned()),
        };
        let report = ExternReport { schema: call.schema.clone(), location: call.location.clone(), route, reason };
        let own = call.schema.starts_with("aten.") || call.schema.starts_with("prims.");
        Self { native: native.ok(), signature, report, lend_copies: !own }
    }

    /// Returns true if the op is not torch's own.
    pub(crate) fn is_foreign(&self) -> bool {
        self.lend_copies
    }

    /// Calls the op; with `outs`, the results are written to them and none is returned.
    pub(crate) fn call(
        &self,
        abi: &'static TorchAbi,
        call: &ExternCall,
        operands: &[TensorRef<'_>],
        outs: &[TensorRef<'_>],
        py: &mut dyn PythonCalls,
    ) -> Result<Vec<Option<OwnedTensor>>, PythonError> {
        let copies;
        let lent;
        let operands = if self.lend_copies {
            // The copies are ours, not the op's, so dispatch modes must not see them.
            let _below = BelowAutograd::enter(abi);
            copies = operands.iter().map(|t| copy_of(abi, *t)).collect::<Result<Vec<_>, _>>().map_err(from_torch)?;
            lent = copies.iter().map(OwnedTensor::as_ref).collect::<Vec<_>>();
            &lent
        } else {
            operands
        };
        if let Some(op) = &self.native {
            return op.call(abi, operands, outs).map_err(from_torch);
        }
        let results = py.call(call, operands)?;
        if outs.is_empty() {
            return Ok(results);
        }
        if results.len() != outs.len() {
            return Err(message(format!("{} returned {} tensors, {} were expected", call.schema, results.len(), outs.len())));
        }
        for (out, result) in outs.iter().zip(&results) {
            let result = result.as_ref().ok_or_else(|| message(format!("{} returned no tensor", call.schema)))?;
            same_device(call, *out, result.as_ref()).map_err(message)?;
            same_shape(call, out.sizes().map_err(from_torch)?, result).map_err(message)?;
            out.copy_from(result.as_ref()).map_err(from_torch)?;
        }
        Ok(Vec::new())
    }
}

/// Checks a call against torch's schema of the operator.
fn check(call: &ExternCall, step: &ExternStep, signature: &Signature) -> Result<(), String> {
    let (schema, location) = (&call.schema, &call.location);
    let wrong = |what: String| Err(format!("{schema} ({location}) {what}"));
    if signature.writes {
        return wrong("writes to its arguments: the plan knows nothing of that".to_owned());
    }
    if call.args.len() != signature.args.len() {
        return wrong(format!("takes {} arguments, {} are given", signature.args.len(), call.args.len()));
    }
    let tensors = signature.results.iter().all(|ty| ty.base == Base::Tensor && !ty.list);
    let expected = step.outs.len().max(step.results.len());
    if tensors && expected != 0 && expected != signature.results.len() {
        return wrong(format!("returns {} tensors, {expected} are expected", signature.results.len()));
    }
    Ok(())
}

fn native(abi: &TorchAbi, device: Device, call: &ExternCall, step: &ExternStep, signature: &Signature) -> Result<OpCall, TorchError> {
    if call.route == Route::Python {
        return Err(TorchError::new("the plan asks for Python"));
    }
    OpCall::prepare(abi, device, call.route, signature, &call.args, &step.operand_types, step.outs.len())
}

fn message(message: impl Into<String>) -> PythonError {
    PythonError { message: message.into(), payload: None }
}

#[expect(clippy::needless_pass_by_value, reason = "made for map_err")]
pub(crate) fn from_torch(e: TorchError) -> PythonError {
    message(e.message())
}

fn copy_of(abi: &TorchAbi, tensor: TensorRef<'_>) -> Result<OwnedTensor, TorchError> {
    let dtype = tensor.dtype()?.ok_or_else(|| TorchError::new("unknown element type"))?;
    let device = tensor.device()?.ok_or_else(|| TorchError::new("unknown device"))?;
    copy_with(abi, device, (tensor.sizes()?, tensor.strides()?, dtype), tensor)
}

/// Returns a copy with these sizes and strides. An element that an expanded tensor repeats is written once: torch does not write to such
/// tensors.
pub(crate) fn copy_with(
    abi: &TorchAbi,
    device: Device,
    (sizes, strides, dtype): (&[i64], &[i64], DType),
    tensor: TensorRef<'_>,
) -> Result<OwnedTensor, TorchError> {
    let copy = abi.empty_strided_on(device, sizes, strides, dtype)?;
    if sizes.iter().zip(strides).all(|(&size, &stride)| stride != 0 || size < 2) {
        copy.as_ref().copy_from(tensor)?;
        return Ok(copy);
    }
    let once: Vec<_> = sizes.iter().zip(strides).map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size }).collect();
    let from = tensor.reinterpret(&once, tensor.strides()?, tensor.storage_offset()?)?;
    copy.as_ref().reinterpret(&once, strides, 0)?.as_ref().copy_from(from.as_ref())?;
    Ok(copy)
}

/// Checks that both are on one device. Otherwise a copy would go between devices, and wait for both.
fn same_device(call: &ExternCall, out: TensorRef<'_>, result: TensorRef<'_>) -> Result<(), String> {
    let [out, result] = [out, result].map(|tensor| tensor.device().map_err(|error| error.to_string()));
    if out? == result? { Ok(()) } else { Err(format!("{} returned a tensor on another device", call.schema)) }
}

fn same_shape(call: &ExternCall, expected: &[i64], result: &OwnedTensor) -> Result<(), String> {
    let sizes = result.as_ref().sizes().map_err(|e| e.to_string())?;
    if sizes == expected { Ok(()) } else { Err(format!("{} returned sizes {sizes:?}, {expected:?} were expected", call.schema)) }
}

/// Converts a result to what the plan expects: its element type, device and sizes must match; its strides and memory are adjusted.
///
/// `in_workspace` returns true if an address belongs to memory that does not outlive the run.
pub(crate) fn normalize(
    abi: &TorchAbi,
    call: &ExternCall,
    (device, expected): (Device, &Layout),
    result: OwnedTensor,
    operands: &[TensorRef<'_>],
    in_workspace: impl Fn(*const u8) -> bool,
) -> Result<OwnedTensor, String> {
    let tensor = result.as_ref();
    let text = |e: TorchError| e.to_string();
    if tensor.dtype().map_err(text)? != Some(expected.dtype) {
        return Err(format!("{} returned another element type than {}", call.schema, expected.dtype.name()));
    }
    if tensor.device().map_err(text)? != Some(device) {
        return Err(format!("{} returned a tensor that is not on {device}", call.schema));
    }
    same_shape(call, &expected.window.sizes, &result)?;
    let strides = tensor.strides().map_err(text)?;
    let exact = strides == expected.window.strides;
    let pointer = tensor.data_ptr().map_err(text)?;
    let mut borrowed = in_workspace(pointer);
    if !borrowed && !pointer.is_null() {
        let start = storage_start(tensor, expected.element_bytes()).map_err(text)?;
        for &operand in operands {
            let bytes = operand.dtype().map_err(text)?.map_or(1, |d| d.size() as i64);
            borrowed |= storage_start(operand, bytes).map_err(text)? == start;
        }
    }
    if exact && !borrowed {
        return Ok(result);
    }
    if !borrowed && expected.same_memory(&expected.window.sizes, strides) {
        let offset = tensor.storage_offset().map_err(text)?;
        return tensor.reinterpret(&expected.window.sizes, &expected.window.strides, offset).map_err(text);
    }
    copy_with(abi, device, (&expected.window.sizes, &expected.window.strides, expected.dtype), tensor).map_err(text)
}

fn storage_start(tensor: TensorRef<'_>, element_bytes: i64) -> Result<usize, TorchError> {
    let before = tensor.storage_offset()?.wrapping_mul(element_bytes);
    Ok((tensor.data_ptr()? as usize).wrapping_sub(before as usize))
}
