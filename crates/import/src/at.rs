//! Traces for given values of their symbols: as if they had been recorded on tensors with these sizes.

use std::{collections::HashMap, sync::Arc};

use dynamlir_shapes::{Bindings, Dim, ShapeError};

use crate::{Arg, Input, OpCall, TensorType, Trace};

impl Trace {
    /// Returns the trace for these values of its symbols. Shared parts stay shared.
    ///
    /// # Errors
    /// If a value is missing, or a size is not a number for these values.
    pub fn at(&self, values: &Bindings) -> Result<Self, ShapeError> {
        Numeric { values, nested: HashMap::new(), results: HashMap::new() }.trace(self)
    }
}

struct Numeric<'t> {
    values: &'t Bindings,
    /// By the address of the original, which lives as long as the trace.
    nested: HashMap<*const Trace, Arc<Trace>>,
    results: HashMap<*const TensorType, Arc<[TensorType]>>,
}

impl Numeric<'_> {
    fn trace(&mut self, trace: &Trace) -> Result<Trace, ShapeError> {
        let inputs =
            trace.inputs.iter().map(|input| Ok(Input { ty: self.ty(&input.ty)?, ..input.clone() })).collect::<Result<_, ShapeError>>()?;
        let ops = trace.ops.iter().map(|op| self.op(op)).collect::<Result<_, ShapeError>>()?;
        Ok(trace.with_static(inputs, ops))
    }

    fn op(&mut self, op: &OpCall) -> Result<OpCall, ShapeError> {
        Ok(OpCall {
            args: op.args.iter().map(|arg| self.arg(arg)).collect::<Result<_, ShapeError>>()?,
            results: self.results(&op.results)?,
            decomposition: self.nested(op.decomposition.as_ref())?,
            vjp: self.nested(op.vjp.as_ref())?,
            ..op.clone()
        })
    }

    fn nested(&mut self, trace: Option<&Arc<Trace>>) -> Result<Option<Arc<Trace>>, ShapeError> {
        let Some(trace) = trace else { return Ok(None) };
        if let Some(made) = self.nested.get(&Arc::as_ptr(trace)) {
            return Ok(Some(Arc::clone(made)));
        }
        let made = Arc::new(self.trace(trace)?);
        self.nested.insert(Arc::as_ptr(trace), Arc::clone(&made));
        Ok(Some(made))
    }

    fn results(&mut self, types: &Arc<[TensorType]>) -> Result<Arc<[TensorType]>, ShapeError> {
        if let Some(made) = self.results.get(&types.as_ptr()).filter(|made| made.len() == types.len()) {
            return Ok(Arc::clone(made));
        }
        let made: Arc<[TensorType]> = types.iter().map(|ty| self.ty(ty)).collect::<Result<_, ShapeError>>()?;
        self.results.insert(types.as_ptr(), Arc::clone(&made));
        Ok(made)
    }

    fn ty(&self, ty: &TensorType) -> Result<TensorType, ShapeError> {
        let all = |sizes: &[Dim]| sizes.iter().map(|size| self.size(size)).collect::<Result<_, ShapeError>>();
        Ok(TensorType { dtype: ty.dtype.clone(), sizes: all(&ty.sizes)?, strides: all(&ty.strides)?, offset: self.size(&ty.offset)? })
    }

    fn size(&self, size: &Dim) -> Result<Dim, ShapeError> {
        size.at(self.values).map(Dim::from)
    }

    fn arg(&self, arg: &Arg) -> Result<Arg, ShapeError> {
        Ok(match arg {
            Arg::Size(size) => Arg::Int(size.at(self.values)?),
            Arg::List(list) => Arg::List(list.iter().map(|arg| self.arg(arg)).collect::<Result<_, ShapeError>>()?),
            other => other.clone(),
        })
    }
}
