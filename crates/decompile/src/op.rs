//! The effects of instructions, without the differences between versions.

use dynamlir_bytecode::Const;

use crate::{
    ast::{Expr, Makes, ParameterKind, Unary},
    patterns::Found,
};

/// The scope of a name, as far as stores must declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// A local, or a cell that this function owns.
    Local,
    /// A cell of an enclosing function.
    Free,
    Global,
    /// The namespace of a module or class.
    Name,
}

/// A kind of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Display {
    Tuple,
    List,
    Set,
}

/// One step of the stack machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op<'a> {
    Push(Expr<'a>),
    Store(Scope, &'a str),
    Delete(Scope, &'a str),
    Pop,
    Copy(usize),
    Swap(usize),
    Unary(Unary),
    Binary(&'static str),
    InPlace(&'static str),
    Compare(&'static str),
    IsNone,
    Subscript,
    /// `[a:b]` with three stack entries.
    SliceSubscript,
    StoreSubscript,
    StoreSlice,
    DeleteSubscript,
    Attribute(&'a str),
    StoreAttribute(&'a str),
    DeleteAttribute(&'a str),
    /// The attribute, and the NULL of a method call below or above it.
    Method(&'a str, NullAt),
    /// `super().name`, or `super(a, b).name` if true; with the NULL if it is called.
    Super(&'a str, bool, Option<NullAt>),
    Build(Display, usize),
    BuildMap(usize),
    BuildConstKeyMap(usize),
    BuildString(usize),
    BuildSlice(usize),
    /// Adds an element to the collection this far below: list and set take one entry, dict two.
    Add(Makes, usize),
    /// `[*a]`, `{*a}`: the kind of collection, and its depth below the top.
    Extend(Display, usize),
    /// `{**a}`; true if it is for a call's keywords.
    Update(usize, bool),
    ListToTuple,
    Call(usize),
    KeywordNames(&'a [Const]),
    /// A call whose keyword names are on the stack.
    CallKeywords(usize),
    /// `f(*a)`; true if `**b` follows.
    CallEx(bool),
    Function(u32),
    FunctionAttribute(u32),
    Format(Option<char>, bool),
    Convert(char),
    /// A part of a template string; true if it has a format.
    Interpolation(Option<char>, bool),
    Template,
    Iter,
    /// Imports a module; true if the import is lazy.
    Import(&'a str, bool),
    ImportFrom(&'a str),
    ImportStar,
    Unpack(usize),
    UnpackEx(usize, usize),
    Raise(usize),
    /// Propagates the exception to the enclosing code.
    Reraise,
    Return,
    Yield,
    YieldFrom,
    Await,
    /// True if async.
    EnterWith(bool),
    /// The call of `__exit__` at an exit.
    EndWith,
    /// A copy of a `finally` body at an exit.
    EndFinally,
    WithExceptStart,
    PushException,
    PopException,
    CheckMatch,
    LoadAndClear(&'a str),
    /// Parts of `match` on the subject at the top: see `patterns`.
    GetLength,
    MatchSequence,
    MatchMapping,
    MatchKeys,
    MatchClass(usize),
    /// Decides where to continue; the successors say how.
    Branch,
    /// Does nothing; represents an endless loop of jumps.
    Nothing,
    Unsupported(&'static str),
    /// The test of a case: see `patterns`.
    Case(Box<Found<'a>>, Keeps),
    /// A part of type parameters: see `generics`.
    Generic(Generic),

    // Created by reduction.
    /// Puts the value at the top in parentheses.
    Group,
    /// `top and …`: the steps push the second operand.
    And(Vec<Self>),
    /// `top or …`
    Or(Vec<Self>),
    /// `… if top else …`
    IfElse(Vec<Self>, Vec<Self>),
    /// `a < b …`: compares the two values at the top. The steps find b at the top and leave the result of the rest.
    Chain(&'static str, Vec<Self>),
    /// A comprehension over the iterator at the top.
    Comprehend(Box<crate::ast::Comprehension<'a>>),
}

/// The effect of a case on the subject at the top of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// It stays below the result.
    Subject,
    /// Only the result stays.
    Nothing,
    /// There is no result: the case matches everything.
    NoResult,
}

/// A step for type parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generic {
    /// Creates a parameter from its name.
    Parameter(ParameterKind),
    /// Creates a parameter from its name and the function that returns its bound.
    Bound { constraints: bool },
    /// Sets the function that returns a parameter's default.
    Default,
    /// Sets the parameters of a function.
    Give,
    /// The base of a class.
    Base,
    /// A `type` statement's value.
    Alias,
}

/// The position of a call's NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NullAt {
    Below,
    Above,
}

impl Op<'_> {
    /// Returns the number of entries that it takes and leaves. For steps that occur only in statements, the numbers do not matter.
    pub fn effect(&self) -> (usize, usize) {
        match self {
            Self::Push(_) | Self::Case(_, Keeps::Subject) | Self::LoadAndClear(_) | Self::WithExceptStart => (0, 1),
            Self::Store(..)
            | Self::Pop
            | Self::PopException
            | Self::EndWith
            | Self::Return
            | Self::Raise(1)
            | Self::ImportStar
            | Self::Case(_, Keeps::NoResult)
            | Self::DeleteAttribute(_) => (1, 0),
            Self::Copy(n) => (*n, n + 1),
            Self::Swap(n) => (*n, *n),
            Self::Unary(_)
            | Self::IsNone
            | Self::Group
            | Self::Attribute(_)
            | Self::ListToTuple
            | Self::Convert(_)
            | Self::Iter
            | Self::Yield
            | Self::YieldFrom
            | Self::Await
            | Self::Comprehend(_)
            | Self::Case(_, Keeps::Nothing)
            | Self::Generic(Generic::Parameter(_) | Generic::Base | Generic::Alias)
            | Self::And(_)
            | Self::Or(_)
            | Self::IfElse(..) => (1, 1),
            Self::Binary(_)
            | Self::InPlace(_)
            | Self::Compare(_)
            | Self::Subscript
            | Self::Chain(..)
            | Self::FunctionAttribute(_)
            | Self::Template
            | Self::Generic(Generic::Bound { .. } | Generic::Default | Generic::Give)
            | Self::Import(..) => (2, 1),
            Self::SliceSubscript => (3, 1),
            Self::StoreSubscript => (3, 0),
            Self::StoreSlice => (4, 0),
            Self::DeleteSubscript | Self::StoreAttribute(_) | Self::Raise(2) => (2, 0),
            Self::Super(_, _, null) => (3, 1 + usize::from(null.is_some())),
            Self::Build(_, n) | Self::BuildString(n) | Self::BuildSlice(n) => (*n, 1),
            Self::BuildMap(n) => (2 * n, 1),
            Self::BuildConstKeyMap(n) => (n + 1, 1),
            Self::Add(Makes::Dict, n) => (n + 2, *n),
            Self::Add(_, n) | Self::Extend(_, n) | Self::Update(n, _) => (n + 1, *n),
            Self::Call(n) => (n + 2, 1),
            Self::CallKeywords(n) => (n + 3, 1),
            Self::CallEx(keywords) => (3 + usize::from(*keywords), 1),
            Self::Function(flags) => (1 + (flags & 15).count_ones() as usize, 1),
            Self::Interpolation(_, spec) => (2 + usize::from(*spec), 1),
            Self::Format(_, spec) => (1 + usize::from(*spec), 1),
            Self::Method(..) | Self::ImportFrom(_) | Self::EnterWith(_) | Self::PushException => (1, 2),
            Self::Unpack(n) => (1, *n),
            Self::UnpackEx(before, after) => (1, before + 1 + after),
            _ => (0, 0),
        }
    }

    /// Returns true if it can be part of an expression.
    pub fn is_expression(&self) -> bool {
        !matches!(
            self,
            Self::Store(..)
                | Self::Delete(..)
                | Self::Pop
                | Self::StoreSubscript
                | Self::StoreSlice
                | Self::DeleteSubscript
                | Self::StoreAttribute(_)
                | Self::DeleteAttribute(_)
                | Self::InPlace(_)
                | Self::Import(..)
                | Self::ImportFrom(_)
                | Self::ImportStar
                | Self::Unpack(_)
                | Self::UnpackEx(..)
                | Self::Raise(_)
                | Self::Reraise
                | Self::Return
                | Self::EnterWith(_)
                | Self::EndWith
                | Self::EndFinally
                | Self::WithExceptStart
                | Self::PushException
                | Self::PopException
                | Self::CheckMatch
                | Self::LoadAndClear(_)
                | Self::GetLength
                | Self::MatchSequence
                | Self::MatchMapping
                | Self::MatchKeys
                | Self::MatchClass(_)
                | Self::Nothing
                | Self::Case(_, Keeps::Nothing | Keeps::NoResult)
                | Self::Unsupported(_)
        )
    }
}
