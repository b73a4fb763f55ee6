//! The tree that decompiling makes: Python's own, less what bytecode does not keep, plus what only lives on the stack.

use dynamlir_bytecode::{CodeObject, Const};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr<'a> {
    Name(&'a str),
    Const(&'a Const),
    Attribute(Box<Self>, &'a str),
    Subscript(Box<Self>, Box<Self>),
    /// Lower bound, upper bound, step; in a subscript.
    Slice(Option<Box<Self>>, Option<Box<Self>>, Option<Box<Self>>),
    Call(Box<Self>, Vec<Arg<'a>>),
    Unary(Unary, Box<Self>),
    /// The operator's symbol, left, right.
    Binary(&'static str, Box<Self>, Box<Self>),
    /// `and` if true, `or` if false.
    Bool(bool, Box<Self>, Box<Self>),
    Compare(Box<Self>, Vec<(&'static str, Self)>),
    /// Test, value if true, value if false.
    IfElse(Box<Self>, Box<Self>, Box<Self>),
    Lambda(Box<Parameters<'a>>, Box<Self>),
    Tuple(Vec<Self>),
    List(Vec<Self>),
    Set(Vec<Self>),
    /// Pairs; without a key it is `**value`.
    Dict(Vec<(Option<Self>, Self)>),
    Starred(Box<Self>),
    /// `**value`, which a comprehension adds to a dict.
    DoubleStarred(Box<Self>),
    Format(Vec<Piece<'a>>),
    /// A template string.
    Template(Vec<Piece<'a>>),
    Comprehension(Box<Comprehension<'a>>),
    Yield(Box<Self>),
    YieldFrom(Box<Self>),
    Await(Box<Self>),
    Walrus(&'a str, Box<Self>),
    /// In parentheses that mean something: `(a and b) and c` tests twice.
    Group(Box<Self>),

    // What follows lives on the stack only; none of it can be printed.
    /// CPython's NULL.
    Null,
    Marker(Marker<'a>),
    /// A copy of the stack's entry with this number.
    Copy(u32, Box<Self>),
    /// A value that has been stored and is still on the stack: targets, value.
    Stored(Vec<Self>, Box<Self>),
    /// `left += right` before it is stored.
    InPlace(&'static str, Box<Self>, Box<Self>),
    /// An element that `UNPACK_…` left: which unpacking, which element.
    Element(usize, usize),
    Function(Box<Function<'a>>),
    /// The function that `__build_class__` is given, its name, bases and keywords.
    Class(Box<Function<'a>>, Vec<Arg<'a>>),
    BuildClass,
    AssertionError,
    /// A module being imported: name, level, names asked for with where they were stored; true if it is lazy.
    Module(&'a str, usize, Option<Vec<(&'a str, &'a str)>>, bool),
    /// What `IMPORT_FROM` found: the name, and the whole path if it is `import a.b as c`, true if that is lazy.
    Imported(&'a str, Option<(&'a str, bool)>),
    /// What `GET_ITER` gives.
    Iterated(Box<Self>),
    /// Whether a case of a `match` holds.
    Case(Box<Case<'a>>),
    /// A part of a template string.
    Interpolation(Box<Piece<'a>>),
    TypeParameter(Box<TypeParameter<'a>>),
    Alias(Box<Alias<'a>>),
    /// A value with its conversion, before 3.13 formats it.
    Converted(char, Box<Self>),
}

/// Places on the stack that belong to a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Marker<'a> {
    /// The iterator of a `for`.
    Iterator,
    /// From 3.15 on, above the iterator: how far a list or tuple has been gone through; or NULL.
    Place,
    /// What a `for` hands to its target.
    Item,
    /// `__exit__` of a `with`.
    Exit,
    /// What a `with` hands to its target.
    Entered,
    /// The exception handled before, below the one being handled.
    Previous,
    /// The exception being handled.
    Exception,
    /// `CHECK_EXC_MATCH` with this type.
    Matches(Box<Expr<'a>>),
    /// The offset that handlers with `lasti` find.
    Offset,
    /// The list, set or dict that a comprehension fills.
    Accumulator,
    /// What `send` passed in when the generator started.
    Sent,
    /// The base that classes with type parameters are given.
    GenericBase,
    /// The subject of a `match`.
    Subject,
}

/// An operator with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Minus,
    Plus,
    Invert,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arg<'a> {
    Positional(Expr<'a>),
    Star(Expr<'a>),
    Keyword(&'a str, Expr<'a>),
    DoubleStar(Expr<'a>),
}

/// A part of an f-string or template string.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    Text(&'a Const),
    /// Value, conversion (`s`, `r`, `a` or none), format.
    Value(Expr<'a>, Option<char>, Option<Vec<Self>>),
    /// The same in a template string, which keeps the value's own text, too.
    Source(Expr<'a>, &'a str, Option<char>, Option<Vec<Self>>),
}

/// What a comprehension makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Makes {
    List,
    Set,
    Dict,
    Generator,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comprehension<'a> {
    pub makes: Makes,
    /// The element, or a dict's key.
    pub element: Expr<'a>,
    /// A dict's value.
    pub value: Option<Expr<'a>>,
    pub clauses: Vec<Clause<'a>>,
    /// Its function, in 3.11, is a coroutine: the `await` of its call is not in the source.
    pub awaited: bool,
}

/// `for target in iter`, or `if test`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clause<'a> {
    For { target: Expr<'a>, iter: Expr<'a>, is_async: bool },
    If(Expr<'a>),
}

/// A function as `MAKE_FUNCTION` knows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function<'a> {
    pub code: &'a CodeObject,
    pub defaults: Vec<Expr<'a>>,
    pub keyword_defaults: Vec<(&'a str, Expr<'a>)>,
    pub annotations: Vec<(&'a str, Expr<'a>)>,
    pub type_parameters: Vec<TypeParameter<'a>>,
}

impl<'a> Function<'a> {
    pub fn new(code: &'a CodeObject) -> Self {
        Self { code, defaults: Vec::new(), keyword_defaults: Vec::new(), annotations: Vec::new(), type_parameters: Vec::new() }
    }
}

/// What a case asks of the subject.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern<'a> {
    Value(Expr<'a>),
    /// A name that takes everything, or `_`.
    Capture(Option<&'a str>),
    As(Box<Self>, &'a str),
    Sequence(Vec<Self>),
    /// `*name` or `*_`, in a sequence.
    Star(Option<&'a str>),
    /// Keys with their values, and what takes the rest.
    Mapping(Vec<(Expr<'a>, Self)>, Option<&'a str>),
    /// Class, positional patterns, those of attributes.
    Class(Expr<'a>, Vec<Self>, Vec<(&'a str, Self)>),
    Or(Vec<Self>),
}

/// The test of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case<'a> {
    /// The subject, if it is the first case.
    pub subject: Option<Expr<'a>>,
    pub pattern: Pattern<'a>,
    /// Whether the subject is kept for cases that follow.
    pub keeps: bool,
    /// Whether the pattern has been joined of several.
    pub joined: bool,
}

/// A case of a `match` statement: pattern, guard, body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MatchCase<'a> {
    pub pattern: Pattern<'a>,
    pub guard: Option<Expr<'a>>,
    pub body: Vec<Stmt<'a>>,
}

/// The form of a type parameter: `T`, `*T`, `**T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    Plain,
    Star,
    DoubleStar,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypeParameter<'a> {
    pub name: &'a str,
    pub kind: ParameterKind,
    pub bound: Option<Expr<'a>>,
    /// Whether the bound is a tuple of which one is meant.
    pub constraints: bool,
    pub default: Option<Expr<'a>>,
}

/// `type name[parameters] = value`
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alias<'a> {
    pub name: &'a str,
    pub parameters: Vec<TypeParameter<'a>>,
    pub value: Expr<'a>,
}

/// The head of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameters<'a> {
    pub positional_only: usize,
    pub positional: Vec<Parameter<'a>>,
    /// `*args`; without it keyword-only parameters follow a bare star.
    pub rest: Option<Parameter<'a>>,
    pub keyword_only: Vec<Parameter<'a>>,
    pub options: Option<Parameter<'a>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parameter<'a> {
    pub name: &'a str,
    pub annotation: Option<Expr<'a>>,
    pub default: Option<Expr<'a>>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stmt<'a> {
    Expr(Expr<'a>),
    Assign(Vec<Expr<'a>>, Expr<'a>),
    AugAssign(Expr<'a>, &'static str, Expr<'a>),
    /// `name: annotation`, or `name: annotation = value`
    Annotate(&'a str, Expr<'a>, Option<Expr<'a>>),
    Delete(Expr<'a>),
    Return(Expr<'a>),
    Raise(Option<Expr<'a>>, Option<Expr<'a>>),
    Assert(Expr<'a>, Option<Expr<'a>>),
    /// Module, what it is stored as, true if it is lazy.
    Import(&'a str, &'a str, bool),
    /// Module, level, names with what they are stored as; no names is a star. True if it is lazy.
    ImportFrom(&'a str, usize, Vec<(&'a str, &'a str)>, bool),
    Global(Vec<&'a str>),
    Nonlocal(Vec<&'a str>),
    Pass,
    Break,
    Continue,
    If(Expr<'a>, Vec<Self>, Vec<Self>),
    While(Expr<'a>, Vec<Self>, Vec<Self>),
    For {
        target: Expr<'a>,
        iter: Expr<'a>,
        body: Vec<Self>,
        orelse: Vec<Self>,
        is_async: bool,
    },
    With {
        context: Expr<'a>,
        target: Option<Expr<'a>>,
        body: Vec<Self>,
        is_async: bool,
    },
    Try(Box<Try<'a>>),
    Match(Expr<'a>, Vec<MatchCase<'a>>),
    /// The last case of a `match`, which takes everything, starts here.
    Otherwise(Pattern<'a>),
    Def {
        name: &'a str,
        type_parameters: Vec<TypeParameter<'a>>,
        parameters: Box<Parameters<'a>>,
        returns: Option<Expr<'a>>,
        decorators: Vec<Expr<'a>>,
        body: Body<'a>,
        is_async: bool,
    },
    ClassDef {
        name: &'a str,
        type_parameters: Vec<TypeParameter<'a>>,
        arguments: Vec<Arg<'a>>,
        decorators: Vec<Expr<'a>>,
        body: Body<'a>,
    },
    TypeAlias(Box<Alias<'a>>),
    /// The element that a comprehension adds, with a dict's value; or an annotation's name with the annotation.
    Append(Expr<'a>, Option<Expr<'a>>),
    /// The function that gives the annotations of the variables around it.
    Annotations(&'a CodeObject),
    /// The place of the annotation with a number.
    Met(&'a Const),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Try<'a> {
    pub body: Vec<Stmt<'a>>,
    pub handlers: Vec<ExceptClause<'a>>,
    pub orelse: Vec<Stmt<'a>>,
    pub finally: Vec<Stmt<'a>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExceptClause<'a> {
    pub kind: Option<Expr<'a>>,
    pub name: Option<Expr<'a>>,
    pub body: Vec<Stmt<'a>>,
}

/// The body of a function or class: statements, or why there are none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Body<'a> {
    pub code: &'a CodeObject,
    pub statements: Result<Vec<Stmt<'a>>, String>,
}
