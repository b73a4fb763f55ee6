//! Options of passes and pipelines, declared with their types, and what passes count.
//!
//! Upstream's parser of options reads them: an option that is not declared, or a value of another kind, is an error, and
//! `--help` lists each with its description.

use std::cell::{Cell, RefCell};

use super::PassError;
use crate::ffi;

/// An option as it is declared; [`pass_options!`](crate::pass_options) writes these.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name, with underscores where the command line has hyphens.
    pub name: &'static str,
    /// One line, with the default.
    pub description: &'static str,
    /// What it takes.
    pub kind: ffi::OptionKind,
}

/// Options that were given to one run of a pass, by position: None for those that were not.
#[derive(Clone, Debug, Default)]
pub struct Given(pub(super) Vec<Option<Value>>);

/// A value as upstream's parser has read it.
#[derive(Clone, Debug)]
pub enum Value {
    /// A flag or a number.
    Number(u64),
    /// Text.
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A type that an option can have.
pub trait OptionType: Sized {
    /// What upstream parses.
    const KIND: ffi::OptionKind;
    /// The value; None if the type cannot hold it.
    fn read(value: &Value) -> Option<Self>;
}

impl OptionType for bool {
    const KIND: ffi::OptionKind = ffi::OptionKind::Flag;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Number(number) = value { Some(*number != 0) } else { None }
    }
}

impl OptionType for i64 {
    const KIND: ffi::OptionKind = ffi::OptionKind::Number;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Number(number) = value { Self::try_from(*number).ok() } else { None }
    }
}

impl OptionType for usize {
    const KIND: ffi::OptionKind = ffi::OptionKind::Number;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Number(number) = value { Self::try_from(*number).ok() } else { None }
    }
}

impl OptionType for String {
    const KIND: ffi::OptionKind = ffi::OptionKind::Text;
    fn read(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Some(text.clone()) } else { None }
    }
}

/// An option that has no default.
impl<T: OptionType> OptionType for Option<T> {
    const KIND: ffi::OptionKind = T::KIND;
    fn read(value: &Value) -> Option<Self> {
        T::read(value).map(Some)
    }
}

/// The options of a pass, as a struct of them; written by [`pass_options!`](crate::pass_options).
pub trait Options: Sized {
    /// What is declared, in the order of the fields.
    const DECLARED: &'static [OptionSpec];
    /// The options of a run, with defaults for what was not given.
    ///
    /// # Errors
    /// A number is larger than its type holds.
    fn read(given: &Given) -> Result<Self, PassError>;
}

impl Given {
    /// Option number `index`, else its default.
    ///
    /// # Errors
    /// A number is larger than its type holds.
    pub fn get<T: OptionType>(&self, index: usize, declared: &OptionSpec, default: T) -> Result<T, PassError> {
        let Some(value) = self.0.get(index).and_then(Option::as_ref) else { return Ok(default) };
        T::read(value).ok_or_else(|| PassError::module(format!("option {}: {value} is out of range", option_name(declared))))
    }
}

/// The name on the command line.
pub(super) fn option_name(declared: &OptionSpec) -> String {
    declared.name.replace('_', "-")
}

/// Declares the options of a pass as a struct: the comment of a field is its description, the field's name with hyphens its
/// name. A field's type is `bool`, `usize`, `i64`, `String`, or an `Option` of one.
///
/// ```ignore
/// pass_options! {
///     /// Options of `dynamo-fuse`.
///     pub struct FuseOptions {
///         /// most operations of a kernel (64)
///         max_ops: usize = 64,
///     }
/// }
/// ```
#[macro_export]
macro_rules! pass_options {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $( #[doc = $description:literal] $field:ident: $kind:ty = $default:expr, )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $( #[doc = $description] pub $field: $kind, )*
        }

        impl $crate::pass::Options for $name {
            const DECLARED: &'static [$crate::pass::OptionSpec] = &[
                $( $crate::pass::OptionSpec {
                    name: stringify!($field),
                    description: $description,
                    kind: <$kind as $crate::pass::OptionType>::KIND,
                }, )*
            ];

            fn read(given: &$crate::pass::Given) -> Result<Self, $crate::pass::PassError> {
                let mut declared = Self::DECLARED.iter().enumerate();
                $( let $field = match declared.next() {
                    Some((index, option)) => given.get(index, option, $default)?,
                    None => $default,
                }; )*
                Ok(Self { $( $field, )* })
            }
        }
    };
}

/// Something that a pass counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// A short name, with hyphens.
    pub name: &'static str,
    /// What is counted.
    pub description: &'static str,
}

/// One run of a pass: the options that it was given, and what it has counted.
#[derive(Debug)]
pub struct Run {
    pub(super) given: Given,
    pub(super) statistics: &'static [Statistic],
    pub(super) counted: RefCell<Vec<u64>>,
    pub(super) counts_all: Cell<bool>,
}

impl Run {
    /// The options.
    ///
    /// # Errors
    /// A number is larger than its type holds.
    pub fn options<O: Options>(&self) -> Result<O, PassError> {
        O::read(&self.given)
    }

    /// Counts `more` of something that the pass has declared.
    ///
    /// # Panics
    /// The pass has not declared it.
    pub fn count(&self, statistic: &Statistic, more: usize) {
        let index = self.statistics.iter().position(|declared| declared == statistic);
        let index = index.unwrap_or_else(|| panic!("a pass counts {}, which it has not declared", statistic.name));
        self.counted.borrow_mut()[index] += more as u64;
    }

    /// Says that the pass has changed nothing but what it counts. A module in which it has counted nothing is then not verified once more.
    pub fn counts_all(&self) {
        self.counts_all.set(true);
    }
}
