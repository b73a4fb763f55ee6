//! Attributes as Rust values, and the dialect's discardable attributes.

use std::marker::PhantomData;

use dynamlir_shapes::Dim;

use super::{Attr, Ctx, Op, Type};

/// A Rust type that represents a kind of attribute.
pub trait AttrValue: Sized {
    /// The Rust value from which the attribute is built.
    type Given<'a>;
    /// The value, if the attribute is of this kind.
    fn read(attr: Attr) -> Option<Self>;
    /// Builds the attribute; `None` if there is none for the given value.
    fn try_write(ctx: Ctx, given: Self::Given<'_>) -> Option<Attr> {
        Some(Self::write(ctx, given))
    }
    /// Builds the attribute.
    fn write(ctx: Ctx, given: Self::Given<'_>) -> Attr;
}

/// A reference to a symbol, `@outer::@inner` or `@name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The symbol table in which the name is looked up, if it is not the enclosing one.
    pub outer: Option<String>,
    /// The name.
    pub name: String,
}

impl Symbol {
    /// `@outer::@name`.
    pub fn nested(outer: &str, name: &str) -> Self {
        Self { outer: Some(outer.to_owned()), name: name.to_owned() }
    }
    /// `@name`.
    pub fn flat(name: &str) -> Self {
        Self { outer: None, name: name.to_owned() }
    }
}

macro_rules! attr_values {
    ($( $kind:ty, $given:ty, $read:expr, $write:expr; )*) => {
        $( impl AttrValue for $kind {
            type Given<'a> = $given;
            fn read(attr: Attr) -> Option<Self> {
                $read(attr)
            }
            fn write(ctx: Ctx, given: Self::Given<'_>) -> Attr {
                $write(ctx, given)
            }
        } )*
    };
}

attr_values! {
    i64, i64, Attr::as_i64, Attr::i64;
    f64, f64, Attr::as_f64, Attr::f64;
    String, &'a str, Attr::as_str, Attr::str;
    Vec<Attr>, &'a [Attr], Attr::as_array, Attr::array;
    Vec<i64>, &'a [i64], Attr::as_i64s, Attr::i64s;
    Type, Type, Attr::as_type, |_: Ctx, given: Type| given.as_attr();
    Attr, Attr, Some, |_: Ctx, given: Attr| given;
}

/// A unit attribute: present for true, absent for false.
impl AttrValue for bool {
    type Given<'a> = ();
    fn read(attr: Attr) -> Option<Self> {
        attr.is_unit().then_some(true)
    }
    fn write(ctx: Ctx, (): ()) -> Attr {
        Attr::unit(ctx)
    }
}

impl AttrValue for Symbol {
    type Given<'a> = &'a Self;
    fn read(attr: Attr) -> Option<Self> {
        attr.as_symbol_path()
    }
    fn write(ctx: Ctx, given: &Self) -> Attr {
        match &given.outer {
            Some(outer) => Attr::nested_symbol(ctx, outer, &given.name),
            None => Attr::symbol(ctx, &given.name),
        }
    }
}

impl Discardable<Vec<i64>> {
    /// The same attribute, but its sizes may be expressions.
    pub const fn dims(self) -> Discardable<Vec<Dim>> {
        Discardable::new(self.name)
    }
}

impl Discardable<i64> {
    /// The same attribute, but its value may be an expression.
    pub const fn dim(self) -> Discardable<Dim> {
        Discardable::new(self.name)
    }
}

/// An attribute of the dialect on operations of other dialects, or on arguments and results of functions.
#[derive(Debug)]
pub struct Discardable<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Discardable<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Discardable<T> {}

impl<T: AttrValue> Discardable<T> {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }
    /// Its name, for example `dynamo.entry`.
    pub const fn name(self) -> &'static str {
        self.name
    }
    /// Its value on an operation; `None` if it is missing or of another kind.
    pub fn of(self, op: Op) -> Option<T> {
        op.optional(self.name)
    }
    /// Returns true if an operation has it.
    pub fn is_on(self, op: Op) -> bool {
        op.attr(self.name).is_some()
    }
    /// Its value in a dictionary, such as that of a function's argument.
    pub fn within(self, attrs: Attr) -> Option<T> {
        attrs.get(self.name).and_then(T::read)
    }
    /// Its value on argument `index` of a function.
    pub fn of_arg(self, function: Op, index: usize) -> Option<T> {
        self.within(*function.optional::<Vec<Attr>>("arg_attrs")?.get(index)?)
    }
    /// Its value on result `index` of a function.
    pub fn of_result(self, function: Op, index: usize) -> Option<T> {
        self.within(*function.optional::<Vec<Attr>>("res_attrs")?.get(index)?)
    }
    /// Sets it on an operation.
    pub fn set(self, op: Op, given: T::Given<'_>) {
        op.set_attr(self.name, T::write(op.ctx(), given));
    }
    /// Sets it on an operation, if there is such an attribute; returns false, with a diagnostic, if its verifier rejects it.
    pub fn try_set(self, op: Op, given: T::Given<'_>) -> bool {
        let attr = T::try_write(op.ctx(), given);
        attr.map(|attr| op.set_attr(self.name, attr)).is_some()
    }
    /// The attribute with its name, for builders.
    pub fn with(self, ctx: Ctx, given: T::Given<'_>) -> (&'static str, Attr) {
        (self.name, T::write(ctx, given))
    }
    /// Removes it from an operation; returns true if it was present.
    pub fn remove(self, op: Op) -> bool {
        op.remove_attr(self.name)
    }
}
