//! Binding arguments to parameters, as CPython does for a Python function.

use pyo3::{
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

/// `CO_VARARGS`
const VARARGS: u32 = 0x4;
/// `CO_VARKEYWORDS`
const VARKEYWORDS: u32 = 0x8;

/// The parameters of a function, in the order of its frame's slots.
pub struct Signature {
    positional: usize,
    positional_only: usize,
    keyword_only: usize,
    varargs: bool,
    varkeywords: bool,
    names: Vec<Py<PyString>>,
}

/// The values of a frame's first slots; None for a parameter that is not bound.
pub type Locals<'py> = Vec<Option<Bound<'py, PyAny>>>;

impl Signature {
    /// Of a Python function's code.
    pub fn of(function: &Bound<'_, PyAny>) -> PyResult<Self> {
        let code = function.getattr("__code__")?;
        let number = |name: &str| code.getattr(name)?.extract::<usize>();
        let flags: u32 = code.getattr("co_flags")?.extract()?;
        let (positional, keyword_only) = (number("co_argcount")?, number("co_kwonlyargcount")?);
        let names = code.getattr("co_varnames")?.cast_into::<PyTuple>()?;
        let names = names.iter().take(positional + keyword_only).map(|name| Ok(name.cast_into::<PyString>()?.unbind()));
        Ok(Self {
            positional,
            positional_only: number("co_posonlyargcount")?,
            keyword_only,
            varargs: flags & VARARGS != 0,
            varkeywords: flags & VARKEYWORDS != 0,
            names: names.collect::<PyResult<_>>()?,
        })
    }

    /// Binds a call. None where Python raises a `TypeError`, which is left to Python.
    pub fn bind<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        bound: &[Bound<'py, PyAny>],
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Locals<'py>>> {
        let py = function.py();
        let named = self.positional + self.keyword_only;
        let mut locals: Locals<'py> = Vec::with_capacity(named + 2);
        locals.extend(bound.iter().cloned().map(Some));
        locals.extend(args.iter().map(Some));
        let mut rest = if locals.len() > self.positional { locals.split_off(self.positional) } else { Vec::new() };
        if !rest.is_empty() && !self.varargs {
            return Ok(None);
        }
        locals.resize(named, None);
        let extra = if self.varkeywords { Some(PyDict::new(py)) } else { None };
        for (key, value) in kwargs.into_iter().flatten() {
            let known = (self.positional_only..named).find(|at| self.names[*at].bind(py).as_any().eq(&key).unwrap_or(false));
            match (known, &extra) {
                (Some(at), _) if locals[at].is_none() => locals[at] = Some(value),
                (None, Some(extra)) => extra.set_item(key, value)?,
                _ => return Ok(None),
            }
        }
        if locals.iter().any(Option::is_none) && !self.fill_defaults(function, &mut locals)? {
            return Ok(None);
        }
        if self.varargs {
            locals.push(Some(PyTuple::new(py, rest.drain(..).flatten().collect::<Vec<_>>())?.into_any()));
        }
        locals.extend(extra.map(|extra| Some(extra.into_any())));
        Ok(Some(locals))
    }

    /// Whether all parameters have a value in the end.
    fn fill_defaults<'py>(&self, function: &Bound<'py, PyAny>, locals: &mut Locals<'py>) -> PyResult<bool> {
        if let Ok(defaults) = function.getattr("__defaults__")?.cast::<PyTuple>() {
            let first = self.positional.saturating_sub(defaults.len());
            for at in first..self.positional {
                if locals[at].is_none() {
                    locals[at] = Some(defaults.get_item(at - first)?);
                }
            }
        }
        if let Ok(defaults) = function.getattr("__kwdefaults__")?.cast::<PyDict>() {
            for at in self.positional..locals.len() {
                if locals[at].is_none() {
                    locals[at] = defaults.get_item(&self.names[at])?;
                }
            }
        }
        Ok(locals.iter().all(Option::is_some))
    }
}
