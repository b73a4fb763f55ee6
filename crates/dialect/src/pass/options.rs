//! Options, statistics and decisions of passes and pipelines, declared with their types.
//!
//! Upstream's option parser reads them: an undeclared option, or a value of another kind, is an error, and `--help` lists each with its
//! description.

use std::cell::{Cell, RefCell};

use dynamlir_decisions::{Decision, Site, Text};

use super::PassError;
use crate::{ffi, ir::Op};

/// The declaration of an option, written by [`pass_options!`](crate::pass_options).
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name, with underscores instead of the hyphens of the command line.
    pub name: &'static str,
    /// One line, with the default.
    pub description: &'static str,
    /// The kind of its value.
    pub kind: ffi::OptionKind,
}

/// The options given to one run of a pass, by position: `None` for those not given.
#[derive(Clone, Debug, Default)]
pub struct GivenOptions(pub(super) Vec<Option<Value>>);

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
    /// The kind that upstream parses.
    const KIND: ffi::OptionKind;
    /// The value; `None` if the type cannot hold it.
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

/// An option without a default.
impl<T: OptionType> OptionType for Option<T> {
    const KIND: ffi::OptionKind = T::KIND;
    fn read(value: &Value) -> Option<Self> {
        T::read(value).map(Some)
    }
}

/// The options of a pass as a struct; implemented by [`pass_options!`](crate::pass_options).
pub trait Options: Sized {
    /// The declarations, in the order of the fields.
    const DECLARED: &'static [OptionSpec];
    /// The options of a run, with defaults for those not given.
    ///
    /// # Errors
    /// If a number does not fit its type.
    fn read(given: &GivenOptions) -> Result<Self, PassError>;
}

impl GivenOptions {
    /// Option number `index`, else its default.
    ///
    /// # Errors
    /// If a number does not fit its type.
    pub fn get<T: OptionType>(&self, index: usize, declared: &OptionSpec, default: T) -> Result<T, PassError> {
        let Some(value) = self.0.get(index).and_then(Option::as_ref) else { return Ok(default) };
        T::read(value).ok_or_else(|| PassError::module(format!("option {}: {value} is out of range", option_name(declared))))
    }
}

/// The name on the command line.
pub(super) fn option_name(declared: &OptionSpec) -> String {
    declared.name.replace('_', "-")
}

/// Declares the options of a pass as a struct. The doc comment of a field is the option's description; the field's name with hyphens is the
/// option's name. A field's type is `bool`, `usize`, `i64`, `String`, or an `Option` of one of them.
///
/// ```ignore
/// pass_options! {
///     /// Options of `dynamo-fuse`.
///     pub struct FuseOptions {
///         /// maximum number of operations of a kernel (64)
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

            fn read(given: &$crate::pass::GivenOptions) -> Result<Self, $crate::pass::PassError> {
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

/// A statistic: something that a pass counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// A short name, with hyphens.
    pub name: &'static str,
    /// A description of what is counted.
    pub description: &'static str,
}

/// One run of a pass: its options, the values of its statistics, and its decisions.
#[derive(Debug)]
pub struct Run {
    pub(super) name: &'static str,
    pub(super) given: GivenOptions,
    pub(super) statistics: &'static [Statistic],
    pub(super) counted: RefCell<Vec<u64>>,
    pub(super) counts_all: Cell<bool>,
    pub(super) decided: RefCell<Vec<Decision>>,
}

impl Run {
    /// The options.
    ///
    /// # Errors
    /// If a number does not fit its type.
    pub fn options<O: Options>(&self) -> Result<O, PassError> {
        O::read(&self.given)
    }

    /// Adds `more` to a statistic that the pass has declared.
    ///
    /// # Panics
    /// If the pass has not declared it.
    pub fn count(&self, statistic: &Statistic, more: usize) {
        let index = self.statistics.iter().position(|declared| declared == statistic);
        let index = index.unwrap_or_else(|| panic!("a pass counts {}, which it has not declared", statistic.name));
        self.counted.borrow_mut()[index] += more as u64;
    }

    /// Begins a decision of this pass about an operation, which messages call `what`.
    pub fn decision(&self, op: Op, what: impl Into<String>, choice: impl Into<Text>, alternatives: &[&'static str]) -> Decision {
        Decision::new(self.name, Site { what: what.into(), location: op.loc().place() }, choice, alternatives)
    }

    /// Records a decision.
    pub fn decide(&self, decision: Decision) {
        self.decided.borrow_mut().push(decision);
    }

    /// Declares that the pass has changed nothing except what it counts. If it has counted nothing, the module is not verified again.
    pub fn counts_all(&self) {
        self.counts_all.set(true);
    }
}
