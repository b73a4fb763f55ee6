//! Constants: immutable Python values that are compared by exact type and value.
//!
//! Python's `==` is too lenient for guards: `1 == True == 1.0` and `0.0 == -0.0`, while `nan != nan`. Here two values are the same if no
//! program can distinguish them except by `is`: equal types, equal bits of floats, equal elements of tuples.

use std::{
    cell::Cell,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use dynamlir_cpython_abi::{shown, types};
use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyBool, PyBytes, PyComplex, PyEllipsis, PyFloat, PyFrozenSet, PyInt, PyNone, PyRange, PySlice, PyString, PyTuple, PyType},
};

/// An immutable Python value. Holds its object strongly, so the object must not refer to anything of the user's.
#[derive(Debug)]
pub struct Constant {
    object: Py<PyAny>,
    kind: Kind,
    /// A canonical text: equal exactly if the constants are the same. Also used for hashing.
    canon: Arc<str>,
    /// The value as in Python's `repr`.
    text: Arc<str>,
}

/// The way in which a value is compared.
#[derive(Debug, Clone)]
enum Kind {
    /// By address: None, Ellipsis, True, False, dtypes and other singletons.
    Singleton,
    Int(i64),
    Float(u64),
    /// Exact type, then `==`, which runs C code only: str, bytes, int beyond 64 bits, torch.device.
    Equal,
    Complex(u64, u64),
    /// A numpy scalar: its exact type and its bytes.
    Bytes(Vec<u8>),
    /// The exact type is that of the object: tuple, torch.Size, a named tuple.
    Tuple(Vec<Constant>),
    FrozenSet(Vec<Constant>),
    /// start, stop, step of a slice or range. They are compared since equal ranges may differ in them.
    Steps(Vec<Constant>),
}

impl Clone for Constant {
    fn clone(&self) -> Self {
        Python::attach(|py| Self {
            object: self.object.clone_ref(py),
            kind: self.kind.clone(),
            canon: self.canon.clone(),
            text: self.text.clone(),
        })
    }
}

impl PartialEq for Constant {
    fn eq(&self, other: &Self) -> bool {
        self.canon == other.canon
    }
}

impl Eq for Constant {}

impl Hash for Constant {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canon.hash(state);
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The parts of a slice and of a range.
const STEPS: [&str; 3] = ["start", "stop", "step"];

/// The maximum nesting depth of a constant.
const DEEPEST: usize = 100;

thread_local! {
    /// The nesting depth of the constant under construction.
    static LEVEL: Cell<usize> = const { Cell::new(0) };
}

/// The level to restore when dropped.
struct Level(usize);

impl Drop for Level {
    fn drop(&mut self) {
        LEVEL.set(self.0);
    }
}

/// Torch types whose instances are immutable: singletons, except for `device`.
const TORCH_SINGLETONS: [&str; 4] = ["dtype", "layout", "memory_format", "qscheme"];

/// Numpy's scalars of fixed size.
const NUMPY_SCALARS: [&str; 13] =
    ["bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"];

/// Addresses of torch's and numpy's classes that are recognized by identity. They live as long as the process.
struct Known {
    size: usize,
    device: usize,
    singletons: Vec<usize>,
    numpy: Vec<(usize, &'static str)>,
}

impl Known {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static KNOWN: PyOnceLock<Known> = PyOnceLock::new();
        KNOWN.get_or_try_init(py, || {
            let torch = dynamlir_cpython_abi::import(py, "torch")?;
            let address = |name: &str| torch.getattr(name).map(|class| class.into_ptr() as usize);
            let numpy = dynamlir_cpython_abi::import(py, "numpy").ok();
            let scalar = |name: &'static str| Some((numpy.as_ref()?.getattr(name).ok()?.into_ptr() as usize, name));
            Ok(Self {
                size: address("Size")?,
                device: address("device")?,
                singletons: TORCH_SINGLETONS.iter().map(|name| address(name)).collect::<PyResult<_>>()?,
                numpy: NUMPY_SCALARS.iter().filter_map(|name| scalar(name)).collect(),
            })
        })
    }
}

impl Constant {
    /// Returns the value of a float; None for anything else.
    #[must_use]
    pub fn float(&self) -> Option<f64> {
        match self.kind {
            Kind::Float(bits) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    /// Returns the bits of a float, or of an integer that fits into 64 bits; otherwise None.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        match self.kind {
            Kind::Float(bits) => Some(bits),
            Kind::Int(value) => Some(value.cast_unsigned()),
            _ => None,
        }
    }

    /// Returns the constant for an object, or None if its type is not one of those compared by value.
    ///
    /// # Errors
    /// Returns an exception that Python raises while the object is inspected (out of memory).
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some((kind, canon)) = Self::classify(object)? else { return Ok(None) };
        let text = text_of(object, &kind)?.into();
        Ok(Some(Self { object: object.clone().unbind(), kind, canon: canon.into(), text }))
    }

    /// Returns the constant for a C class that lives as long as the process, as an element of a set: it is hashed and compared by address.
    /// Returns None for anything else.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub fn lasting_class(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Ok(class) = object.cast_exact::<PyType>() else { return Ok(None) };
        if types::flags(class) & types::HEAP_TYPE != 0 {
            return Ok(None);
        }
        let canon = format!("@{}", object.as_ptr() as usize);
        let text = class.fully_qualified_name()?.to_string_lossy().into();
        Ok(Some(Self { object: object.clone().unbind(), kind: Kind::Singleton, canon: canon.into(), text }))
    }

    /// Returns a string constant, for keys.
    #[must_use]
    pub fn string(py: Python<'_>, value: &str) -> Self {
        let object = PyString::intern(py, value).into_any();
        let (canon, text) = (format!("s{value}"), quoted(value));
        Self { object: object.unbind(), kind: Kind::Equal, canon: canon.into(), text: text.into() }
    }

    /// Returns the object itself.
    #[must_use]
    pub fn object(&self) -> &Py<PyAny> {
        &self.object
    }

    /// Returns the address of its class.
    pub(crate) fn class_address(&self) -> usize {
        Python::attach(|py| self.object.bind(py).get_type_ptr() as usize)
    }

    /// Returns its value if it is an int.
    pub(crate) fn int(&self) -> Option<i64> {
        if let Kind::Int(value) = self.kind { Some(value) } else { None }
    }

    /// Returns true if only one such object exists.
    #[must_use]
    pub fn is_singleton(&self) -> bool {
        matches!(self.kind, Kind::Singleton)
    }

    /// Returns true if comparing creates no objects, so that not even the garbage collector can run.
    pub(crate) fn matches_quickly(&self) -> bool {
        match &self.kind {
            Kind::Singleton | Kind::Int(_) | Kind::Float(_) | Kind::Equal => true,
            Kind::Tuple(elements) => elements.iter().all(Self::matches_quickly),
            _ => false,
        }
    }

    /// Returns true if it is a float that is not equal to itself.
    pub(crate) fn is_nan(&self) -> bool {
        matches!(self.kind, Kind::Float(bits) if f64::from_bits(bits).is_nan())
    }

    /// Returns the canonical text: equal exactly for constants that are the same.
    pub(crate) fn canon(&self) -> &str {
        &self.canon
    }

    fn classify(object: &Bound<'_, PyAny>) -> PyResult<Option<(Kind, String)>> {
        let address = object.as_ptr() as usize;
        if object.is_exact_instance_of::<PyNone>() || object.is_exact_instance_of::<PyEllipsis>() || object.is_exact_instance_of::<PyBool>()
        {
            return Ok(Some((Kind::Singleton, format!("@{address}"))));
        }
        if object.is_exact_instance_of::<PyInt>() {
            return Ok(Some(match object.extract::<i64>() {
                Ok(value) => (Kind::Int(value), format!("i{value}")),
                Err(_) => (Kind::Equal, format!("x{}", hexadecimal(object)?)),
            }));
        }
        if let Ok(float) = object.cast_exact::<PyFloat>() {
            let bits = float.value().to_bits();
            return Ok(Some((Kind::Float(bits), format!("f{bits:x}"))));
        }
        if let Ok(complex) = object.cast_exact::<PyComplex>() {
            let (real, imag) = complex_bits(complex)?;
            return Ok(Some((Kind::Complex(real, imag), format!("c{real:x},{imag:x}"))));
        }
        if let Ok(text) = object.cast_exact::<PyString>() {
            // Strings with lone surrogates have no UTF-8; their repr identifies them as well.
            let canon = text.to_str().map_or_else(|_| shown::repr(object).map(|r| format!("u{r}")), |t| Ok(format!("s{t}")))?;
            return Ok(Some((Kind::Equal, canon)));
        }
        if object.is_exact_instance_of::<PyBytes>() {
            return Ok(Some((Kind::Equal, format!("r{}", shown::repr(object)?))));
        }
        let (slice, range) = (object.is_exact_instance_of::<PySlice>(), object.is_exact_instance_of::<PyRange>());
        if slice || range {
            let parts = STEPS.map(|name| object.getattr(name));
            return Self::composite(parts.into_iter(), if slice { "slice" } else { "range" }, Kind::Steps);
        }
        if let Ok(set) = object.cast_exact::<PyFrozenSet>() {
            let Some((Kind::FrozenSet(elements), _)) = Self::composite(set.iter().map(Ok), "", Kind::FrozenSet)? else { return Ok(None) };
            // Equal sets may iterate in a different order, which a program can see.
            let names: Vec<_> = elements.iter().map(|e| e.canon.to_string()).collect();
            return Ok(Some((Kind::FrozenSet(elements), format!("frozenset({})", joined(&names)))));
        }
        let class = object.get_type();
        let known = Known::get(object.py())?;
        let address_of_class = class.as_ptr() as usize;
        if let Ok(tuple) = object.cast::<PyTuple>() {
            // An instance of a subclass is immutable if it stores nothing besides the items.
            let plain = class.is(object.py().get_type::<PyTuple>()) || address_of_class == known.size || is_named_tuple(&class)?;
            let head = format!("tuple@{}", class.as_ptr() as usize);
            return if plain { Self::composite(tuple.iter().map(Ok), &head, Kind::Tuple) } else { Ok(None) };
        }
        if known.singletons.contains(&address_of_class) {
            return Ok(Some((Kind::Singleton, format!("@{address}"))));
        }
        if address_of_class == known.device {
            return Ok(Some((Kind::Equal, format!("d{}", shown::str(object)?))));
        }
        if let Some((_, name)) = known.numpy.iter().find(|(known, _)| *known == address_of_class) {
            let bytes: Vec<u8> = object.call_method0("tobytes")?.extract()?;
            let canon = format!("n{name}{bytes:?}");
            return Ok(Some((Kind::Bytes(bytes), canon)));
        }
        Ok(None)
    }

    fn composite<'py>(
        parts: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
        head: &str,
        make: impl FnOnce(Vec<Self>) -> Kind,
    ) -> PyResult<Option<(Kind, String)>> {
        // Tuples may be nested more deeply than the C stack allows.
        let level = LEVEL.get();
        if level >= DEEPEST {
            return Ok(None);
        }
        LEVEL.set(level + 1);
        let _level = Level(level);
        let mut elements = Vec::new();
        for part in parts {
            let Some(element) = Self::new(&part?)? else { return Ok(None) };
            elements.push(element);
        }
        let names: Vec<_> = elements.iter().map(|e| e.canon.to_string()).collect();
        Ok(Some((make(elements), format!("{head}({})", joined(&names)))))
    }

    /// Returns true if an object has the same value.
    ///
    /// # Errors
    /// Returns an exception raised by the comparison; no user code is run.
    pub fn matches(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = object.py();
        let mine = self.object.bind(py);
        if mine.is(object) {
            return Ok(true);
        }
        if matches!(self.kind, Kind::Singleton) || !mine.get_type().is(object.get_type()) {
            return Ok(false);
        }
        Ok(match &self.kind {
            Kind::Singleton => false,
            Kind::Int(value) => object.extract::<i64>().is_ok_and(|seen| seen == *value),
            Kind::Float(bits) => object.extract::<f64>()?.to_bits() == *bits,
            Kind::Equal => mine.eq(object)?,
            Kind::Complex(real, imag) => object.cast_exact::<PyComplex>().is_ok_and(|c| complex_bits(c).is_ok_and(|b| b == (*real, *imag))),
            Kind::Bytes(bytes) => object.call_method0("tobytes")?.extract::<Vec<u8>>()? == *bytes,
            Kind::Tuple(elements) => {
                let tuple = object.cast::<PyTuple>()?;
                tuple.len() == elements.len()
                    && elements.iter().zip(tuple.iter()).try_fold(true, |same, (e, o)| Ok::<_, PyErr>(same && e.matches(&o)?))?
            }
            Kind::FrozenSet(_) => Self::new(object)?.is_some_and(|seen| seen == *self),
            Kind::Steps(elements) => {
                elements.iter().zip(STEPS).try_fold(true, |same, (e, p)| Ok::<_, PyErr>(same && e.matches(&object.getattr(p)?)?))?
            }
        })
    }
}

/// Returns true if a constant is, or contains, an integer that [`shown::long_int`] writes in hexadecimal.
fn is_long(object: &Bound<'_, PyAny>, kind: &Kind) -> PyResult<bool> {
    match kind {
        Kind::Equal => Ok(shown::long_int(object)?.is_some()),
        Kind::Tuple(elements) | Kind::FrozenSet(elements) | Kind::Steps(elements) => {
            elements.iter().try_fold(false, |found, element| Ok(found || is_long(element.object.bind(object.py()), &element.kind)?))
        }
        _ => Ok(false),
    }
}

/// Returns the value as in `repr`, without its limit for integers.
fn text_of(object: &Bound<'_, PyAny>, kind: &Kind) -> PyResult<String> {
    let text = match kind {
        Kind::Tuple(elements) | Kind::FrozenSet(elements) | Kind::Steps(elements) if is_long(object, kind)? => {
            let parts: Vec<_> = elements.iter().map(|element| &*element.text).collect();
            return Ok(format!("{}(({},))", object.get_type().name()?, parts.join(", ")));
        }
        Kind::Equal => shown::long_int(object)?.map_or_else(|| shown::repr(object), Ok)?,
        _ => shown::repr(object)?,
    };
    Ok(text.to_string_lossy().into_owned())
}

fn hexadecimal<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    Ok(object.call_method1("__format__", ("#x",))?.cast_into()?)
}

/// Joins the parts, each with its length, so that different lists give different texts.
fn joined(parts: &[String]) -> String {
    parts.iter().map(|part| format!("{}:{part}", part.len())).collect::<Vec<_>>().join(",")
}

/// Quotes a string as Python's `repr` does if there are no special characters.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn complex_bits(value: &Bound<'_, PyComplex>) -> PyResult<(u64, u64)> {
    let part = |name: &str| value.getattr(name)?.extract::<f64>().map(f64::to_bits);
    Ok((part("real")?, part("imag")?))
}

/// Returns true for a class created by `namedtuple` or `NamedTuple`: its instances do not have a dictionary.
fn is_named_tuple(class: &Bound<'_, PyType>) -> PyResult<bool> {
    Ok(class.hasattr("_fields")? && class.getattr("__dictoffset__")?.extract::<isize>()? == 0)
}
