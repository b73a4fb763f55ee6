//! The general native route: torch's dispatcher, called with a stack of 64-bit values.
//!
//! Each argument becomes one value: numbers as their bits, tensors as separate handles, lists and strings as objects created through the C
//! ABI, optionals as null or a pointer to a boxed value. The dispatcher consumes them all.

use std::ffi::{CStr, CString};

use crate::op::enum_code;
use crate::tensor::RawHandle;
use crate::{Arg, Base, Device, OwnedTensor, Signature, TensorRef, TorchAbi, TorchError, Ty};

/// A value that has to be created anew forevery call.
enum Value {
    Bits(u64),
    Tensor(usize),
    Text(String),
    List(Vec<Value>),
    Boxed(Box<Value>),
}

pub(crate) struct DispatcherCall {
    name: CString,
    overload: CString,
    values: Vec<Value>,
    results: Vec<Ty>,
}

impl DispatcherCall {
    pub(crate) fn prepare(abi: &TorchAbi, signature: &Signature, args: &[Arg]) -> Result<Self, TorchError> {
        if signature.args.iter().any(|t| matches!(t.base, Base::Scalar | Base::Other)) {
            return Err(TorchError::new("a parameter's type cannot cross the C ABI"));
        }
        if signature.symbolic_lists {
            return Err(TorchError::new("a fixed-size list of symbolic integers cannot cross the C ABI"));
        }
        if signature.results.iter().any(|t| t.base != Base::Tensor || t.list_optional || (t.list && t.optional)) {
            return Err(TorchError::new("a result is not a tensor"));
        }
        let values = signature.args.iter().zip(args).map(|(ty, arg)| value(abi, *ty, arg)).collect::<Option<_>>();
        let values = values.ok_or_else(|| TorchError::new("an argument does not fit its parameter"))?;
        let c_string = |s: &str| CString::new(s).map_err(|_| TorchError::new("an op name holds a zero byte"));
        Ok(Self { name: c_string(&signature.name)?, overload: c_string(&signature.overload)?, values, results: signature.results.clone() })
    }

    pub(crate) fn call(&self, abi: &TorchAbi, operands: &[TensorRef<'_>]) -> Result<Vec<OwnedTensor>, TorchError> {
        // Arguments and results share the stack, and there may be more results than arguments.
        let mut stack = Vec::with_capacity(self.values.len().max(self.results.len()));
        for value in &self.values {
            // An error here leaks the content of the stack: handles whose types are no longer known. It only occurs if memory runs out.
            stack.push(materialize(abi, value, operands)?);
        }
        stack.resize(stack.len().max(self.results.len()), 0);
        // SAFETY: the names are C strings; the stack has a value forevery parameter, of the kind given by the schema, and room forevery
        // result. The values are stolen, the results are new.
        let status = unsafe { (abi.f.call_dispatcher)(self.name.as_ptr(), self.overload.as_ptr(), stack.as_mut_ptr(), abi.version) };
        abi.check(status)?;
        let mut out = Vec::with_capacity(self.results.len());
        for (ty, bits) in self.results.iter().zip(stack) {
            match (ty.list, ty.optional) {
                (true, _) => take_list(abi, bits, &mut out)?,
                (false, false) => out.push(take_tensor(bits)?),
                (false, true) => return Err(TorchError::new("an optional tensor came back")),
            }
        }
        Ok(out)
    }
}

/// Returns the recipe for one argument, or `None` if its type and value do not match.
fn value(abi: &TorchAbi, ty: Ty, arg: &Arg) -> Option<Value> {
    if ty.list {
        let inner = Ty { list: false, list_optional: false, ..ty };
        return match arg {
            Arg::None if ty.list_optional => Some(Value::Bits(0)),
            Arg::List(items) => {
                let list = Value::List(items.iter().map(|a| value(abi, inner, a)).collect::<Option<_>>()?);
                Some(if ty.list_optional { Value::Boxed(Box::new(list)) } else { list })
            }
            _ => None,
        };
    }
    if ty.optional {
        if *arg == Arg::None {
            return Some(Value::Bits(0));
        }
        return Some(Value::Boxed(Box::new(value(abi, Ty { optional: false, ..ty }, arg)?)));
    }
    Some(match (ty.base, arg) {
        (Base::Tensor, Arg::Operand(i)) => Value::Tensor(*i),
        (Base::Int, Arg::Int(v)) => Value::Bits(*v as u64),
        (Base::Float, Arg::Float(v)) => Value::Bits(v.to_bits()),
        #[expect(clippy::cast_precision_loss, reason = "Python converts an int given for a float the same way")]
        (Base::Float, Arg::Int(v)) => Value::Bits((*v as f64).to_bits()),
        (Base::Bool, Arg::Bool(v)) => Value::Bits(u64::from(*v)),
        (Base::Str, Arg::Str(s)) => Value::Text(s.clone()),
        // The device index is in the low half, -1 for none; the type is in the high half.
        (Base::Device, Arg::Device(name)) => {
            let device: Device = name.parse().ok()?;
            let (kind, number) = abi.numbers(device);
            let number = if device == Device::Cpu { u32::MAX } else { number as u32 };
            Value::Bits(u64::from(kind as u32) << 32 | u64::from(number))
        }
        (Base::DType | Base::Layout | Base::MemoryFormat, _) => Value::Bits(enum_code(abi, arg)? as u64),
        _ => return None,
    })
}

fn materialize(abi: &TorchAbi, value: &Value, operands: &[TensorRef<'_>]) -> Result<u64, TorchError> {
    Ok(match value {
        Value::Bits(bits) => *bits,
        Value::Tensor(i) => operands[*i].to_owned()?.into_raw() as u64,
        Value::Text(text) => {
            let mut handle = std::ptr::null_mut();
            // SAFETY: the bytes are copied; the handle is new.
            abi.check(unsafe { (abi.f.new_string)(text.as_ptr().cast(), text.len(), &raw mut handle) })?;
            handle as u64
        }
        Value::List(items) => {
            let mut list = std::ptr::null_mut();
            // SAFETY: the list is new.
            abi.check(unsafe { (abi.f.new_list)(items.len(), &raw mut list) })?;
            for item in items {
                let bits = materialize(abi, item, operands)?;
                // SAFETY: the list is ours, the value is stolen.
                abi.check(unsafe { (abi.f.list_push)(list, bits) })?;
            }
            list as u64
        }
        Value::Boxed(inner) => {
            let bits = materialize(abi, inner, operands)?;
            let target = new_box(abi)?;
            // SAFETY: the box is new, ours and eight bytes wide.
            unsafe { target.write(bits) };
            target as u64
        }
    })
}

fn new_box(abi: &TorchAbi) -> Result<*mut u64, TorchError> {
    let mut target = std::ptr::null_mut();
    match (abi.f.new_box, abi.f.operator_new) {
        // SAFETY: writes one pointer, which is new.
        (Some(new_box), _) => abi.check(unsafe { new_box(&raw mut target) })?,
        // SAFETY: older versions of torch delete the box as a C++ object of eight bytes.
        (None, Some(operator_new)) => target = unsafe { operator_new(size_of::<u64>()) },
        (None, None) => {}
    }
    if target.is_null() { Err(TorchError::new("no memory for an optional argument")) } else { Ok(target) }
}

fn take_tensor(bits: u64) -> Result<OwnedTensor, TorchError> {
    // SAFETY: a tensor result on the stack is a new handle.
    unsafe { OwnedTensor::from_raw(bits as RawHandle) }.ok_or_else(|| TorchError::new("torch returned no tensor"))
}

fn take_list(abi: &TorchAbi, bits: u64, out: &mut Vec<OwnedTensor>) -> Result<(), TorchError> {
    let list = bits as RawHandle;
    let mut len = 0;
    // SAFETY: a list result on the stack is a new list; its elements become ours, then the empty shell is deleted.
    unsafe {
        abi.check((abi.f.list_size)(list, &raw mut len))?;
        for i in 0..len {
            let mut item = 0;
            abi.check((abi.f.list_get)(list, i, &raw mut item))?;
            out.push(take_tensor(item)?);
        }
        abi.check((abi.f.delete_list)(list))
    }
}

/// `aten::as_strided`, the only op that needs no plan.
pub(crate) fn as_strided(
    abi: &TorchAbi,
    tensor: TensorRef<'_>,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<OwnedTensor, TorchError> {
    let list = |values: &[i64]| Value::List(values.iter().map(|v| Value::Bits(*v as u64)).collect());
    let call = DispatcherCall {
        name: c"aten::as_strided".to_owned(),
        overload: c"".to_owned(),
        values: vec![Value::Tensor(0), list(sizes), list(strides), Value::Boxed(Box::new(Value::Bits(offset as u64)))],
        results: vec![Ty::TENSOR],
    };
    let mut results = call.call(abi, &[tensor])?;
    results.pop().ok_or_else(|| TorchError::new("as_strided returned nothing"))
}

/// `aten::unbind` along the first dimension.
pub(crate) fn unbind(abi: &TorchAbi, tensor: TensorRef<'_>) -> Result<Vec<OwnedTensor>, TorchError> {
    several(abi, tensor, (c"aten::unbind", c"int"), vec![Value::Bits(0)])
}

/// `aten::split_with_sizes`.
pub(crate) fn split(abi: &TorchAbi, tensor: TensorRef<'_>, sizes: &[i64], dim: usize) -> Result<Vec<OwnedTensor>, TorchError> {
    let sizes = Value::List(sizes.iter().map(|size| Value::Bits(*size as u64)).collect());
    several(abi, tensor, (c"aten::split_with_sizes", c""), vec![sizes, Value::Bits(dim as u64)])
}

/// Calls an op that takes one tensor and returns a list of views.
fn several(
    abi: &TorchAbi,
    tensor: TensorRef<'_>,
    (name, overload): (&CStr, &CStr),
    values: Vec<Value>,
) -> Result<Vec<OwnedTensor>, TorchError> {
    let values = [Value::Tensor(0)].into_iter().chain(values).collect();
    let results = vec![Ty { list: true, ..Ty::TENSOR }];
    DispatcherCall { name: name.to_owned(), overload: overload.to_owned(), values, results }.call(abi, &[tensor])
}
