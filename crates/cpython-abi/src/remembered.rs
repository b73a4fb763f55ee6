//! The values cached by `functools.lru_cache`, looked up without calling anything.
//!
//! The cache is a field of the C object that only the garbage collector can see. `lru_cache_tp_traverse` in `Modules/_functoolsmodule.c`
//! visits the class; for each link of a bounded cache its key, result and class; and then the cache, the function, the marker that precedes
//! keywords, two classes and the `__dict__`.

use pyo3::{
    intern,
    prelude::*,
    types::{PyAny, PyDict, PyInt, PyList, PyString, PyTuple},
};

/// The fields of a cached function.
struct Fields<'py> {
    /// All visited objects.
    visited: Bound<'py, PyList>,
    /// The index of the cache among them.
    at: usize,
    cache: Bound<'py, PyDict>,
    /// The marker that precedes keywords in a key.
    mark: Bound<'py, PyAny>,
}

impl<'py> Fields<'py> {
    /// Returns `None` if the object is not laid out as expected.
    fn of(cached: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let py = cached.py();
        let visited = crate::import(py, "gc")?.call_method1(intern!(py, "get_referents"), (cached,))?.cast_into::<PyList>()?;
        let base = py.get_type::<PyAny>();
        let mark = (2..visited.len()).rev().find_map(|at| {
            let found = visited.get_item(at).ok()?;
            found.get_type().is(&base).then_some((at, found))
        });
        let Some((at, mark)) = mark else { return Ok(None) };
        let cache = visited.get_item(at - 2)?.cast_into_exact::<PyDict>();
        Ok(cache.ok().map(|cache| Self { visited, at: at - 2, cache, mark }))
    }

    /// Looks up the cached value for the key of a call (`lru_cache_make_key`), for both values of `typed`.
    fn find(&self, args: &Bound<'py, PyTuple>, kwargs: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = args.py();
        let mut parts: Vec<_> = args.iter().collect();
        let mut types: Vec<_> = args.iter().map(|arg| arg.get_type().into_any()).collect();
        if !kwargs.is_empty() {
            parts.push(self.mark.clone());
        }
        for (name, value) in kwargs.iter() {
            types.push(value.get_type().into_any());
            parts.extend([name, value]);
        }
        let alone = match parts.as_slice() {
            [only] if only.is_exact_instance_of::<PyInt>() || only.is_exact_instance_of::<PyString>() => Some(only.clone()),
            _ => None,
        };
        let key = alone.map_or_else(|| PyTuple::new(py, &parts).map(Bound::into_any), Ok)?;
        if let Some(found) = self.cache.get_item(key)? {
            return Ok(Some(found));
        }
        parts.append(&mut types);
        self.cache.get_item(PyTuple::new(py, parts)?)
    }
}

/// Returns true if a cached function will answer a call from its cache. The arguments' `__hash__` and `__eq__` run: they must be C code.
///
/// # Errors
/// If an argument cannot be hashed.
pub fn remembers<'py>(cached: &Bound<'py, PyAny>, args: &Bound<'py, PyTuple>, kwargs: &Bound<'py, PyDict>) -> PyResult<bool> {
    let Some(fields) = Fields::of(cached)? else { return Ok(false) };
    Ok(fields.find(args, kwargs)?.is_some())
}

/// Returns the cached result of a call, without counting a hit. `None` if there is no cached result.
///
/// # Errors
/// If an argument cannot be hashed.
pub fn remembered<'py>(
    cached: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(fields) = Fields::of(cached)? else { return Ok(None) };
    let Some(found) = fields.find(args, kwargs)? else { return Ok(None) };
    // A bounded cache holds links, which are opaque: the result follows the link's key among the visited objects.
    let is_link = fields.at > 2 && fields.visited.get_item(3)?.is(found.get_type());
    if !is_link {
        return Ok(Some(found));
    }
    let Some((key, _)) = fields.cache.iter().find(|(_, link)| link.is(&found)) else { return Ok(None) };
    let result = (1..fields.at - 1).step_by(3).find(|&at| fields.visited.get_item(at).is_ok_and(|seen| seen.is(&key)));
    result.map(|at| fields.visited.get_item(at + 1)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &std::ffi::CStr = c"
import functools

def made(maxsize, typed=False):
    @functools.lru_cache(maxsize, typed)
    def cached(*args, **kwargs):
        return {'args': args, 'kwargs': kwargs}
    return cached

CALLS = [((), {}), ((1,), {}), (('a',), {}), ((1.5,), {}), ((1, 2), {}), ((1,), {'b': 2}), ((), {'b': 2, 'c': 3}), (((1,),), {})]
";

    #[test]
    fn what_was_called_is_remembered_and_nothing_is_counted() -> PyResult<()> {
        Python::initialize();
        Python::attach(|py| {
            let module = PyModule::from_code(py, SOURCE, c"cached.py", c"cached")?;
            let calls: Vec<(Bound<'_, PyTuple>, Bound<'_, PyDict>)> = module.getattr("CALLS")?.extract()?;
            for maxsize in [None, Some(16)] {
                for typed in [false, true] {
                    let cached = module.getattr("made")?.call1((maxsize, typed))?;
                    for (args, kwargs) in &calls {
                        assert!(!remembers(&cached, args, kwargs)? && remembered(&cached, args, kwargs)?.is_none());
                        let result = cached.call(args, Some(kwargs))?;
                        assert!(remembers(&cached, args, kwargs)?);
                        assert!(remembered(&cached, args, kwargs)?.is_some_and(|found| found.is(&result)));
                    }
                    let hits: usize = cached.call_method0("cache_info")?.getattr("hits")?.extract()?;
                    assert_eq!(hits, 0);
                    cached.call_method0("cache_clear")?;
                    assert!(!remembers(&cached, &calls[0].0, &calls[0].1)?);
                }
            }
            let never = module.getattr("made")?.call1((0,))?;
            never.call0()?;
            assert!(!remembers(&never, &calls[0].0, &calls[0].1)?);
            Ok(())
        })
    }
}
