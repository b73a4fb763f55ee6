//! Guards from Python: building a guard set by hand, for tests and tools, and inspecting one.

use dynamlir_autograd::torch;
use dynamlir_guards::{
    Checked, Failure, GuardBuilder as Builder, GuardError, GuardSet as Set, Inputs, ModuleTable, Relation, Roots, Source, SourceId,
    StorageMember, TensorMatch,
};
use dynamlir_torch_abi::State;
use pyo3::{
    exceptions::{PyIndexError, PyRuntimeError, PyTypeError},
    prelude::*,
    types::{PyDict, PyList},
};

/// Describes guards source by source. Sources are numbers.
#[pyclass(unsendable)]
pub struct GuardBuilder {
    inner: Option<Builder>,
}

impl GuardBuilder {
    fn inner(&self) -> PyResult<&Builder> {
        self.inner.as_ref().ok_or_else(|| PyRuntimeError::new_err("the guards were built already"))
    }

    fn id(&self, number: usize) -> PyResult<SourceId> {
        self.inner()?.source_at(number).ok_or_else(|| PyIndexError::new_err(format!("no source has the number {number}")))
    }

    fn step(&self, base: usize, make: impl FnOnce(SourceId) -> Source) -> PyResult<usize> {
        Ok(self.inner()?.source(make(self.id(base)?)).index())
    }

    fn on(&self, source: usize, add: impl FnOnce(&Builder, SourceId) -> Result<(), GuardError>) -> PyResult<()> {
        Ok(add(self.inner()?, self.id(source)?)?)
    }
}

fn constant(is_one: bool) -> Result<(), GuardError> {
    if is_one { Ok(()) } else { Err(GuardError::Python(PyTypeError::new_err("not a constant"))) }
}

#[pymethods]
impl GuardBuilder {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        torch::prepare_guards(py)?;
        Ok(Self { inner: Some(Builder::new()) })
    }

    fn local(&self, slot: usize, name: &str) -> PyResult<usize> {
        Ok(self.inner()?.local(slot, name).index())
    }

    fn global_(&self, name: &str) -> PyResult<usize> {
        Ok(self.inner()?.global(name).index())
    }

    fn builtin(&self, name: &str) -> PyResult<usize> {
        Ok(self.inner()?.builtin(name).index())
    }

    fn free(&self, index: usize, name: &str) -> PyResult<usize> {
        Ok(self.inner()?.free(index, name).index())
    }

    fn hold(&self, object: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
        Ok(self.inner()?.hold(object, name)?.index())
    }

    fn attr(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::Attr(base, name.into()))
    }

    fn slot(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::Slot(base, name.into()))
    }

    fn type_attr(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::TypeAttr(base, name.into()))
    }

    fn getattr_(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::GetAttr(base, name.into()))
    }

    fn type_of(&self, base: usize) -> PyResult<usize> {
        self.step(base, Source::Type)
    }

    fn item(&self, base: usize, key: &Bound<'_, PyAny>) -> PyResult<usize> {
        Ok(self.inner()?.item(self.id(base)?, key)?.index())
    }

    fn index(&self, base: usize, index: u32) -> PyResult<usize> {
        self.step(base, |base| Source::Index(base, index))
    }

    fn dict_key(&self, base: usize, index: u32) -> PyResult<usize> {
        self.step(base, |base| Source::DictKey(base, index))
    }

    fn dict_value(&self, base: usize, index: u32) -> PyResult<usize> {
        self.step(base, |base| Source::DictValue(base, index))
    }

    fn default(&self, base: usize, index: u32) -> PyResult<usize> {
        self.step(base, |base| Source::Default(base, index))
    }

    fn kwdefault(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::KwDefault(base, name.into()))
    }

    fn closure(&self, base: usize, index: u32, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::Closure { base, index, name: name.into() })
    }

    fn cell(&self, base: usize) -> PyResult<usize> {
        self.step(base, Source::Cell)
    }

    fn code_of(&self, base: usize) -> PyResult<usize> {
        self.step(base, Source::Code)
    }

    fn global_of(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::GlobalOf(base, name.into()))
    }

    fn builtin_of(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::BuiltinOf(base, name.into()))
    }

    fn method_function(&self, base: usize) -> PyResult<usize> {
        self.step(base, Source::MethodFunction)
    }

    fn method_self(&self, base: usize) -> PyResult<usize> {
        self.step(base, Source::MethodSelf)
    }

    fn parameter(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::Member(base, ModuleTable::Parameters, name.into()))
    }

    fn buffer(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::Member(base, ModuleTable::Buffers, name.into()))
    }

    fn module(&self, base: usize, name: &str) -> PyResult<usize> {
        self.step(base, |base| Source::Member(base, ModuleTable::Modules, name.into()))
    }

    fn context_var(&self, base: usize) -> PyResult<usize> {
        self.step(base, Source::ContextVar)
    }

    fn expression(&self, source: usize) -> PyResult<String> {
        Ok(self.inner()?.expression(self.id(source)?))
    }

    fn type_match(&self, source: usize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.on(source, |b, id| b.type_match(id, value))
    }

    fn identity(&self, source: usize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.on(source, |b, id| b.identity(id, value))
    }

    fn equals(&self, source: usize, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.on(source, |b, id| constant(b.equals(id, value)?))
    }

    /// `dynamic` lists dimensions whose size is dynamic (which makes all strides dynamic, too).
    #[pyo3(signature = (source, value, dynamic=None))]
    fn tensor(&self, source: usize, value: &Bound<'_, PyAny>, dynamic: Option<Vec<usize>>) -> PyResult<()> {
        self.on(source, |b, id| {
            let mut expected = TensorMatch::of(value)?;
            for dimension in dynamic.into_iter().flatten() {
                if let Some(size) = expected.meta.sizes.get_mut(dimension) {
                    *size = None;
                }
                expected.meta.strides.fill(None);
            }
            b.tensor(id, expected);
            Ok(())
        })
    }

    fn present(&self, source: usize) -> PyResult<()> {
        self.on(source, |b, id| {
            b.present(id);
            Ok(())
        })
    }

    fn absent(&self, source: usize) -> PyResult<()> {
        self.on(source, |b, id| {
            b.absent(id);
            Ok(())
        })
    }

    fn length(&self, source: usize, length: usize) -> PyResult<()> {
        self.on(source, |b, id| {
            b.length(id, length);
            Ok(())
        })
    }

    fn dict_keys(&self, source: usize, dict: &Bound<'_, PyDict>) -> PyResult<()> {
        self.on(source, |b, id| b.dict_keys(id, dict))
    }

    fn set_elements(&self, source: usize, set: &Bound<'_, PyAny>) -> PyResult<()> {
        self.on(source, |b, id| constant(b.set_elements(id, set)?))
    }

    fn code(&self, source: usize, code: &Bound<'_, PyAny>) -> PyResult<()> {
        self.on(source, |b, id| b.code(id, code))
    }

    fn same(&self, a: usize, b: usize) -> PyResult<()> {
        self.inner()?.relate(Relation::Same(self.id(a)?, self.id(b)?));
        Ok(())
    }

    fn distinct(&self, sources: Vec<usize>) -> PyResult<()> {
        let sources = sources.into_iter().map(|source| self.id(source)).collect::<PyResult<_>>()?;
        self.inner()?.relate(Relation::Distinct(sources));
        Ok(())
    }

    /// Members as (source, group, storage offset).
    fn storages(&self, members: Vec<(usize, u32, i64)>) -> PyResult<()> {
        let member = |(source, group, offset)| Ok::<_, PyErr>(StorageMember { source: self.id(source)?, group, offset });
        self.inner()?.relate(Relation::Storage(members.into_iter().map(member).collect::<PyResult<_>>()?));
        Ok(())
    }

    fn collect(&self, source: usize) -> PyResult<usize> {
        Ok(self.inner()?.collect(self.id(source)?))
    }

    fn torch_state(&self) -> PyResult<()> {
        let state = State::now().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        self.inner()?.torch_state(state);
        Ok(())
    }

    fn build(&mut self, py: Python<'_>) -> PyResult<GuardSet> {
        let builder = self.inner.take().ok_or_else(|| PyRuntimeError::new_err("the guards were built already"))?;
        Ok(GuardSet { inner: builder.build(py)? })
    }
}

/// The guards of one capture.
#[pyclass(frozen)]
pub struct GuardSet {
    inner: Set,
}

impl GuardSet {
    fn with_roots<'py, T>(
        function: &Bound<'py, PyAny>,
        locals: &[Bound<'py, PyAny>],
        then: impl FnOnce(Roots<'_, 'py>) -> PyResult<T>,
    ) -> PyResult<T> {
        let locals: Vec<_> = locals.iter().map(Some).collect();
        then(Roots { function, locals: &locals })
    }
}

/// A failure as Python sees it: (source, guard, expected, seen).
pub type FailureRow = (String, String, String, String);

pub fn failure_row(failure: Failure) -> FailureRow {
    (failure.source, failure.guard, failure.expected, failure.seen)
}

#[pymethods]
impl GuardSet {
    /// Returns true if all guards pass for a call of `function` with these values of its parameters.
    fn check<'py>(&self, function: &Bound<'py, PyAny>, locals: Vec<Bound<'py, PyAny>>) -> PyResult<bool> {
        Self::with_roots(function, &locals, |roots| match self.inner.check(roots, &mut Inputs::default()) {
            Checked::Pass => Ok(true),
            Checked::Fail => Ok(false),
            Checked::Error(error) => Err(error),
        })
    }

    /// Returns the tensors that a passing check collects for the graph; None if it does not pass.
    fn inputs<'py>(&self, function: &Bound<'py, PyAny>, locals: Vec<Bound<'py, PyAny>>) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut inputs = Inputs::default();
        Self::with_roots(function, &locals, |roots| match self.inner.check(roots, &mut inputs) {
            Checked::Pass => Ok(Some(PyList::new(function.py(), inputs.tensors(self.inner.input_count()).iter().flatten())?)),
            Checked::Fail => Ok(None),
            Checked::Error(error) => Err(error),
        })
    }

    /// Returns the first guard that fails, as (source, guard, expected, seen).
    fn explain<'py>(&self, function: &Bound<'py, PyAny>, locals: Vec<Bound<'py, PyAny>>) -> PyResult<Option<FailureRow>> {
        Self::with_roots(function, &locals, |roots| Ok(self.inner.explain(roots)?.map(failure_row)))
    }

    /// Returns all guards that fail.
    fn failures<'py>(&self, function: &Bound<'py, PyAny>, locals: Vec<Bound<'py, PyAny>>) -> PyResult<Vec<FailureRow>> {
        Self::with_roots(function, &locals, |roots| Ok(self.inner.failures(roots)?.into_iter().map(failure_row).collect()))
    }

    /// Checks `times` times without Python in between: for measuring. The check must pass.
    fn repeat<'py>(&self, function: &Bound<'py, PyAny>, locals: Vec<Bound<'py, PyAny>>, times: u32) -> PyResult<()> {
        Self::with_roots(function, &locals, |roots| {
            let mut inputs = Inputs::default();
            for _ in 0..times {
                if !matches!(self.inner.check(roots, &mut inputs), Checked::Pass) {
                    return Err(PyRuntimeError::new_err("the check does not pass"));
                }
            }
            Ok(())
        })
    }

    #[getter]
    fn code_parts(&self) -> Vec<String> {
        self.inner.code_parts()
    }

    #[getter]
    fn valid(&self) -> bool {
        self.inner.is_valid()
    }
}
