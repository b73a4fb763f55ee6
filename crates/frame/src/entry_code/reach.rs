//! Routes to the objects that the guards collect, written as expressions.
//!
//! Guards read storage, while expressions run lookups. A step is written as a lookup only where the guarded classes establish that the
//! lookup finds the same object; otherwise it names the storage.

use dynamlir_bytecode::{Const, Expr};
use dynamlir_guards::{GuardSet, Hop};
use pyo3::{
    prelude::*,
    types::{PyList, PyString, PyTuple, PyType},
};

use super::{Named, Scribe, gone, unwritable, wanted};

type Class<'py> = Option<Bound<'py, PyAny>>;

/// Returns the object that guards hold at the start of the route to the object collected at a place.
pub(super) fn held<'py>(py: Python<'py>, guards: &GuardSet, place: usize) -> Option<Bound<'py, PyAny>> {
    match guards.route(py, place)?.into_iter().next()? {
        (Hop::Object(object), _) => Some(object),
        _ => None,
    }
}

impl<'py> Scribe<'_, 'py> {
    /// Returns an expression for the object that the guards collect at a place.
    pub(super) fn input(&mut self, place: usize) -> PyResult<Expr> {
        let route = self.guards.route(self.py, place).ok_or_else(gone)?;
        let (mut made, rest) = self.root(place, &route)?;
        let from = route[route.len() - rest.len() - 1..].iter().map(|(_, class)| class.as_ref());
        for (class, (hop, _)) in from.zip(rest) {
            made = self.step(made, class, hop)?;
        }
        Ok(made)
    }

    /// Returns an expression for the start of a route, and the remaining hops.
    fn root<'r>(&mut self, place: usize, route: &'r [(Hop<'py>, Class<'py>)]) -> PyResult<(Expr, &'r [(Hop<'py>, Class<'py>)])> {
        Ok(match route {
            [(Hop::Local(slot), _), rest @ ..] => {
                let name = self.like.varnames.get(*slot).ok_or_else(|| unwritable("a parameter without a name"))?;
                (Expr::Local(name.clone()), rest)
            }
            [(Hop::Object(object), _), rest @ ..] => {
                let known = self.names.iter().find_map(|(name, named)| match named {
                    Named::Held(other) if held(self.py, self.guards, *other).is_some_and(|other| other.is(object)) => Some(name.clone()),
                    _ => None,
                });
                let named = match known {
                    Some(name) => Expr::Global(name),
                    None => self.name(&wanted(object)?, Named::Held(place))?,
                };
                (named, rest)
            }
            [(Hop::Function, _), (Hop::Attribute(table), _), (Hop::Key(name), _), rest @ ..] if table == "__globals__" => {
                (self.global(name)?, rest)
            }
            [(Hop::Function, _), (Hop::Attribute(table), _), (Hop::Key(name), _), rest @ ..] if table == "__builtins__" => {
                (self.global(name)?, rest)
            }
            [(Hop::Function, _), (Hop::Attribute(table), _)] if table == "__globals__" => (self.own_globals()?, &route[route.len()..]),
            [(Hop::Function, _), (Hop::Attribute(table), _), (Hop::Index(at), _), (Hop::Attribute(_), _), rest @ ..]
                if table == "__closure__" =>
            {
                let name = self.like.freevars.get(*at).ok_or_else(|| unwritable("a free variable without a name"))?;
                (Expr::Free(name.clone()), rest)
            }
            _ => return Err(unwritable("what is reached from the function itself")),
        })
    }

    /// Returns an expression for a global of the function, or for a builtin.
    fn global(&mut self, name: &Bound<'py, PyAny>) -> PyResult<Expr> {
        let text = name.cast::<PyString>()?.to_str()?.to_owned();
        if self.sets_globals && self.globals.contains(name)? {
            return Ok(self.own_globals()?.item(Expr::Const(Const::Str(text))));
        }
        let is_keyword = dynamlir_cpython_abi::import(self.py, "keyword")?.call_method1("iskeyword", (name,))?.is_truthy()?;
        if name.call_method0("isidentifier")?.is_truthy()? && !is_keyword && !self.like.slots().contains(&text.as_str()) {
            return Ok(Expr::Global(text));
        }
        // A function called within the frame may have globals named like the frame's locals.
        if !self.globals.contains(name)? {
            return Err(unwritable("a builtin that goes by the name of a parameter"));
        }
        Ok(self.builtin("globals")?.call(Vec::new()).item(Expr::Const(Const::Str(text))))
    }

    fn step(&mut self, base: Expr, class: Option<&Bound<'py, PyAny>>, hop: &Hop<'py>) -> PyResult<Expr> {
        let key = |index: usize| Expr::Const(Const::Int(index.to_string()));
        Ok(match hop {
            Hop::Stored(name) if self.is_identifier(name)? && finds_stored(class, name)? => base.attr(name),
            Hop::Stored(name) => {
                if let Some(class) = class {
                    has_own_dict(class)?;
                }
                base.attr("__dict__").item(Expr::Const(Const::Str(name.clone())))
            }
            Hop::Slot(name) if finds_slot(class, name)? => base.attr(name),
            Hop::Slot(name) => return Err(unwritable(&format!("the slot {name} of an object whose class hides it"))),
            Hop::Attribute(name) => base.attr(name),
            Hop::Raw(name) => {
                let lookup = dynamlir_cpython_abi::import(self.py, "inspect")?.getattr("getattr_static")?;
                self.object(&lookup)?.call(vec![base, Expr::Const(Const::Str(name.clone()))])
            }
            Hop::Type => self.builtin("type")?.call(vec![base]),
            Hop::Key(key) => {
                let key = self.object(key)?;
                if is_plain(class, "__getitem__")? {
                    base.item(key)
                } else {
                    self.builtin("dict")?.attr("__getitem__").call(vec![base, key])
                }
            }
            Hop::Index(at) if is_plain(class, "__getitem__")? => base.at(*at),
            Hop::Index(at) => {
                let tuple = class.is_some_and(|class| is_subclass::<PyTuple>(class));
                let list = class.is_some_and(|class| is_subclass::<PyList>(class));
                let kind = if tuple { "tuple" } else { "list" };
                if !tuple && !list {
                    return Err(unwritable("an item of what is neither a tuple nor a list"));
                }
                self.builtin(kind)?.attr("__getitem__").call(vec![base, key(*at)])
            }
            Hop::DictKey(at) => {
                let keys = self.builtin("dict")?.attr("keys").call(vec![base]);
                self.builtin("list")?.call(vec![keys]).at(*at)
            }
            Hop::DictValue(at) => {
                let values = self.builtin("dict")?.attr("values").call(vec![base]);
                self.builtin("list")?.call(vec![values]).at(*at)
            }
            Hop::Answer(arguments) => {
                let arguments = arguments.cast::<PyTuple>()?.iter().map(|one| self.object(&one)).collect::<PyResult<_>>()?;
                base.call(arguments)
            }
            Hop::Method(name) => base.attr(name).call(Vec::new()),
            Hop::Called => base.call(Vec::new()),
            Hop::Unwritable(what) => return Err(unwritable(what)),
            Hop::Local(_) | Hop::Function | Hop::Object(_) => return Err(unwritable("a way with two beginnings")),
        })
    }

    fn is_identifier(&self, name: &str) -> PyResult<bool> {
        let text = PyString::new(self.py, name);
        let is_keyword = dynamlir_cpython_abi::import(self.py, "keyword")?.call_method1("iskeyword", (&text,))?.is_truthy()?;
        Ok(!is_keyword && text.call_method0("isidentifier")?.is_truthy()?)
    }
}

fn is_subclass<T: pyo3::PyTypeInfo>(class: &Bound<'_, PyAny>) -> bool {
    class.cast::<PyType>().is_ok_and(|class| class.is_subclass_of::<T>().unwrap_or(false))
}

/// Returns the attribute found under a name along a class's MRO.
fn raw<'py>(class: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    for class in class.cast::<PyType>()?.mro() {
        let own = class.getattr("__dict__")?;
        if own.contains(name)? {
            return own.get_item(name).map(Some);
        }
    }
    Ok(None)
}

/// Returns true if a method of a class is implemented in C. For an unknown class it is, since the object read is then a dict, tuple or
/// list.
fn is_plain(class: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<bool> {
    let Some(class) = class else { return Ok(true) };
    Ok(match raw(class, name)? {
        Some(method) => is_native(&method)?,
        None => false,
    })
}

fn is_native(method: &Bound<'_, PyAny>) -> PyResult<bool> {
    let types = dynamlir_cpython_abi::import(method.py(), "types")?;
    let natives = ["WrapperDescriptorType", "MethodDescriptorType"];
    natives.iter().try_fold(false, |found, name| Ok(found || method.get_type().is(types.getattr(*name)?)))
}

/// Returns true if `object.name` is the value that an instance of the class stores under the name.
fn finds_stored(class: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<bool> {
    let Some(class) = class else { return Ok(false) };
    if is_subclass::<PyType>(class) || !is_plain(Some(class), "__getattribute__")? {
        return Ok(false);
    }
    Ok(match raw(class, name)? {
        Some(found) => !found.get_type().hasattr("__set__")? && !found.get_type().hasattr("__delete__")?,
        None => true,
    })
}

/// Returns true if `object.name` is the value in the slot of that name of an instance of the class.
fn finds_slot(class: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<bool> {
    let Some(class) = class else { return Ok(false) };
    let member = dynamlir_cpython_abi::import(class.py(), "types")?.getattr("MemberDescriptorType")?;
    let found = raw(class, name)?.is_some_and(|found| found.get_type().is(&member));
    Ok(found && is_plain(Some(class), "__getattribute__")?)
}

/// Refuses classes whose `__dict__` is not the storage of their instances.
pub(super) fn has_own_dict(class: &Bound<'_, PyAny>) -> PyResult<()> {
    let types = dynamlir_cpython_abi::import(class.py(), "types")?;
    let is_native = |found: &Bound<'_, PyAny>| -> PyResult<bool> {
        let kind = found.get_type();
        Ok(kind.is(types.getattr("GetSetDescriptorType")?) || kind.is(types.getattr("MemberDescriptorType")?))
    };
    let found = raw(class, "__dict__")?.as_ref().map(is_native).transpose()?.unwrap_or(false);
    if found && is_plain(Some(class), "__getattribute__")? {
        return Ok(());
    }
    let name = class.cast::<PyType>()?.name()?;
    Err(unwritable(&format!("the attributes of a {name}, whose class looks them up in its own way")))
}
