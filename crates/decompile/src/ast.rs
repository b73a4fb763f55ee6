//! The tree that decompiling builds: Python's own, without what bytecode does not keep, plus nodes that exist only on the stack.

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
    /// Pairs; a pair without a key is `**value`.
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
    /// Parentheses that have a meaning: `(a and b) and c` tests twice.
    Group(Box<Self>),

    // The following exist only on the stack; they cannot be printed.
    /// CPython's NULL.
    Null,
    Marker(Marker<'a>),
    /// A copy of the stack entry with this number.
    Copy(u32, Box<Self>),
    /// A value that has been stored and is still on the stack: targets, value.
    Stored(Vec<Self>, Box<Self>),
    /// `left += right` before it is stored.
    InPlace(&'static str, Box<Self>, Box<Self>),
    /// An element left by `UNPACK_…`: the number of the unpacking and of the element.
    Element(usize, usize),
    Function(Box<Function<'a>>),
    /// The function passed to `__build_class__`, and its name, bases and keywords.
    Class(Box<Function<'a>>, Vec<Arg<'a>>),
    BuildClass,
    AssertionError,
    /// A module being imported: name, level, the requested names with the names that they are stored as; true if it is lazy.
    Module(&'a str, usize, Option<Vec<(&'a str, &'a str)>>, bool),
    /// The result of `IMPORT_FROM`: the name, and for `import a.b as c` the whole path and true if it is lazy.
    Imported(&'a str, Option<(&'a str, bool)>),
    /// The result of `GET_ITER`.
    Iterated(Box<Self>),
    /// The test of a case of a `match`.
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
    /// From 3.15 on, above the iterator: the position reached in a list or tuple, or NULL.
    Place,
    /// The value that a `for` passes to its target.
    Item,
    /// `__exit__` of a `with`.
    Exit,
    /// The value that a `with` passes to its target.
    Entered,
    /// The previously handled exception, below the one being handled.
    Previous,
    /// The exception being handled.
    Exception,
    /// `CHECK_EXC_MATCH` with this type.
    Matches(Box<Expr<'a>>),
    /// The offset that handlers with `lasti` find.
    Offset,
    /// The list, set or dict that a comprehension fills.
    Accumulator,
    /// The value that `send` passed in when the generator started.
    Sent,
    /// The base that classes with type parameters receive.
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
    /// The same in a template string, which also keeps the source text of the value.
    Source(Expr<'a>, &'a str, Option<char>, Option<Vec<Self>>),
}

/// The type of a comprehension's result.
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
    /// In 3.11, true if its function is a coroutine: the `await` of its call is not in the source.
    pub awaited: bool,
}

/// `for target in iter`, or `if test`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clause<'a> {
    For { target: Expr<'a>, iter: Expr<'a>, is_async: bool },
    If(Expr<'a>),
}

/// A function as created by `MAKE_FUNCTION`.
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

/// A pattern that a case tests the subject against.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern<'a> {
    Value(Expr<'a>),
    /// A name that matches everything, or `_`.
    Capture(Option<&'a str>),
    As(Box<Self>, &'a str),
    Sequence(Vec<Self>),
    /// `*name` or `*_`, in a sequence.
    Star(Option<&'a str>),
    /// Keys with the patterns of their values, and the name for the rest.
    Mapping(Vec<(Expr<'a>, Self)>, Option<&'a str>),
    /// Class, positional patterns, attribute patterns.
    Class(Expr<'a>, Vec<Self>, Vec<(&'a str, Self)>),
    Or(Vec<Self>),
}

/// The test of a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case<'a> {
    /// The subject, present for the first case.
    pub subject: Option<Expr<'a>>,
    pub pattern: Pattern<'a>,
    /// True if the subject is kept for later cases.
    pub keeps: bool,
    /// True if the pattern was joined from several.
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
    /// True if the bound is a tuple of alternatives.
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
    /// `*args`; if absent, keyword-only parameters follow a bare star.
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
    /// Module, the name it is stored as, true if it is lazy.
    Import(&'a str, &'a str, bool),
    /// Module, level, names with the names they are stored as (no names mean a star), true if it is lazy.
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
    /// Marks the start of the last case of a `match`, which matches everything.
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
    /// The function that returns the annotations of the surrounding variables.
    Annotations(&'a CodeObject),
    /// The position of the annotation with a number.
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

/// The body of a function or class: its statements, or the reason why they are missing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Body<'a> {
    pub code: &'a CodeObject,
    pub statements: Result<Vec<Stmt<'a>>, String>,
}
