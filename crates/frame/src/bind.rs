//! Binds arguments to parameters, as CPython does for a Python function.
//!
//! The values of a call's parameters are borrowed from the caller; only objects created by binding (`*args`, `**kwargs`, defaults) are
//! owned. A call that Python would refuse is not bound: Python itself reports best what is wrong with it.

use dynamlir_cpython_abi::callable::Arguments;
use pyo3::{
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};
use smallvec::SmallVec;

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

/// The objects created by binding.
pub type Owned<'py> = SmallVec<[Bound<'py, PyAny>; 4]>;

/// The values of a frame's first slots; None for an unbound parameter.
pub type Slots<'a, 'py> = SmallVec<[Option<&'a Bound<'py, PyAny>>; 12]>;

/// Arguments of a call.
#[derive(Clone)]
pub struct CallArguments<'py> {
    /// The positional arguments.
    pub args: Bound<'py, PyTuple>,
    /// The keyword arguments.
    pub kwargs: Bound<'py, PyDict>,
}

/// The place of a parameter's value.
#[derive(Clone, Copy)]
enum Filled<'a, 'py> {
    Nowhere,
    Borrowed(&'a Bound<'py, PyAny>),
    Owned(usize),
}

impl Signature {
    /// Returns the signature of a Python function's code.
    ///
    /// # Errors
    /// If `function` is not a Python function.
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

    /// Returns the names of the named parameters, in the order of the slots.
    pub fn names(&self) -> &[Py<PyString>] {
        &self.names
    }

    /// Returns the number of slots that are parameters, including `*args` and `**kwargs`.
    pub fn len(&self) -> usize {
        self.positional + self.keyword_only + usize::from(self.varargs) + usize::from(self.varkeywords)
    }

    /// Returns true if there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns arguments for creating a frame whose slots are filled before it runs. They belong to no caller, so they keep nothing alive.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn placeholders<'py>(&self, py: Python<'py>) -> PyResult<CallArguments<'py>> {
        let kwargs = PyDict::new(py);
        for name in &self.names[self.positional..] {
            kwargs.set_item(name, py.None())?;
        }
        Ok(CallArguments { args: PyTuple::new(py, (0..self.positional).map(|_| py.None()))?, kwargs })
    }

    /// Returns arguments that bind to these values of the parameters.
    ///
    /// # Errors
    /// If Python is out of memory.
    pub fn unbind<'py>(&self, py: Python<'py>, slots: &[Option<&Bound<'py, PyAny>>]) -> PyResult<CallArguments<'py>> {
        let mut slots = slots.iter().map(|slot| slot.cloned());
        let mut args: Vec<_> = slots.by_ref().take(self.positional).flatten().collect();
        let kwargs = PyDict::new(py);
        for (name, value) in self.names[self.positional..].iter().zip(slots.by_ref().take(self.keyword_only)) {
            if let Some(value) = value {
                kwargs.set_item(name, value)?;
            }
        }
        if self.varargs
            && let Some(rest) = slots.next().flatten()
        {
            args.extend(rest.cast_into::<PyTuple>()?.iter());
        }
        if self.varkeywords
            && let Some(rest) = slots.next().flatten()
        {
            kwargs.update(rest.cast::<PyDict>()?.as_mapping())?;
        }
        Ok(CallArguments { args: PyTuple::new(py, args)?, kwargs })
    }

    /// Binds a call whose first arguments are `bound`, into empty `slots`. Returns false where Python would raise a `TypeError`; raising it
    /// is left to Python.
    ///
    /// # Errors
    /// Returns an exception that Python raised on the way.
    #[inline]
    pub fn bind<'a, 'py>(
        &self,
        function: &Bound<'py, PyAny>,
        bound: &'a [Bound<'py, PyAny>],
        arguments: Arguments<'a, 'py>,
        owned: &'a mut Owned<'py>,
        slots: &mut Slots<'a, 'py>,
    ) -> PyResult<bool> {
        let positional = arguments.positional();
        let plain = !arguments.has_keywords() && !self.varargs && !self.varkeywords && self.keyword_only == 0;
        if plain && bound.len() + positional.len() == self.positional {
            slots.extend(bound.iter().map(Some));
            slots.extend(positional.iter().map(Some));
            return Ok(true);
        }
        self.bind_all(function, bound, arguments, owned, slots)
    }

    fn bind_all<'a, 'py>(
        &self,
        function: &Bound<'py, PyAny>,
        bound: &'a [Bound<'py, PyAny>],
        arguments: Arguments<'a, 'py>,
        owned: &'a mut Owned<'py>,
        slots: &mut Slots<'a, 'py>,
    ) -> PyResult<bool> {
        let py = function.py();
        let named = self.positional + self.keyword_only;
        let mut values = bound.iter().chain(arguments.positional());
        let mut places: SmallVec<[Filled<'a, 'py>; 8]> = values.by_ref().take(self.positional).map(Filled::Borrowed).collect();
        let rest: SmallVec<[&Bound<'py, PyAny>; 4]> = values.collect();
        if !rest.is_empty() && !self.varargs {
            return Ok(false);
        }
        places.resize(named, Filled::Nowhere);
        let mut extra = None;
        for (key, value) in arguments.by_keyword() {
            match self.find(&key) {
                Some(at) if matches!(places[at], Filled::Nowhere) => places[at] = Filled::Borrowed(value),
                None if self.varkeywords => extra.get_or_insert_with(|| PyDict::new(py)).set_item(key, value)?,
                _ => return Ok(false),
            }
        }
        if places.iter().any(|place| matches!(place, Filled::Nowhere)) && !self.fill_defaults(function, &mut places, owned)? {
            return Ok(false);
        }
        if self.varargs {
            places.push(Filled::Owned(owned.len()));
            owned.push(PyTuple::new(py, rest)?.into_any());
        }
        if self.varkeywords {
            places.push(Filled::Owned(owned.len()));
            owned.push(extra.unwrap_or_else(|| PyDict::new(py)).into_any());
        }
        let owned: &'a Owned<'py> = owned;
        let value = |place: Filled<'a, 'py>| match place {
            Filled::Nowhere => None,
            Filled::Borrowed(value) => Some(value),
            Filled::Owned(at) => Some(&owned[at]),
        };
        slots.extend(places.into_iter().map(value));
        Ok(true)
    }

    /// Returns the slot of the parameter named by a keyword.
    fn find(&self, key: &Bound<'_, PyAny>) -> Option<usize> {
        let candidates = self.positional_only..self.names.len();
        // Names in code are interned, and so are most keywords.
        let same = candidates.clone().find(|&at| self.names[at].as_ptr() == key.as_ptr());
        same.or_else(|| candidates.into_iter().find(|&at| self.names[at].bind(key.py()).as_any().eq(key).unwrap_or(false)))
    }

    /// Fills in the defaults. Returns true if all parameters then have a value.
    fn fill_defaults<'py>(&self, function: &Bound<'py, PyAny>, places: &mut [Filled<'_, 'py>], owned: &mut Owned<'py>) -> PyResult<bool> {
        let py = function.py();
        let mut fill = |place: &mut Filled<'_, 'py>, value: Bound<'py, PyAny>| {
            *place = Filled::Owned(owned.len());
            owned.push(value);
        };
        if let Ok(defaults) = function.getattr(pyo3::intern!(py, "__defaults__"))?.cast::<PyTuple>() {
            let first = self.positional.saturating_sub(defaults.len());
            for (place, value) in places[first..self.positional].iter_mut().zip(defaults.iter()) {
                if matches!(place, Filled::Nowhere) {
                    fill(place, value);
                }
            }
        }
        if self.keyword_only > 0
            && let Ok(defaults) = function.getattr(pyo3::intern!(py, "__kwdefaults__"))?.cast::<PyDict>()
        {
            for (place, name) in places.iter_mut().zip(&self.names).skip(self.positional) {
                if matches!(place, Filled::Nowhere)
                    && let Some(value) = defaults.get_item(name)?
                {
                    fill(place, value);
                }
            }
        }
        Ok(places.iter().all(|place| !matches!(place, Filled::Nowhere)))
    }
}
