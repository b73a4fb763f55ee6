//! Sources: the path by which a value was reached from the captured frame.
//!
//! A source is a tree; each node adds one step to its base. Sources are interned in a [`Sources`] table, so equal paths have equal
//! [`SourceId`]s and a tree of guards shares its prefixes. Each prints as the Python expression that reaches the value.
//!
//! A step reads *storage*, never the result of running Python code: [`Source::Attr`] is the value stored on the instance under a name, even
//! if its class has a property of that name. A capture that treats `obj.x` as stored on `obj` also guards the conditions for that: the type
//! of `obj`, and that looking `x` up along its type finds no data descriptor ([`Source::TypeAttr`] with [`crate::Guard::Absent`] or an
//! identity).

use std::{fmt, sync::Arc};

use rustc_hash::FxHashMap;

use crate::{Computed, Constant, Operand};

/// Number of a source in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub(crate) u32);

impl SourceId {
    /// Returns the number, for callers that keep sources in tables of their own.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of an object held by [`crate::GuardBuilder::hold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeldId(pub(crate) u32);

/// A name in a source.
pub type Name = Arc<str>;

/// The table of a module that holds a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModuleTable {
    /// `_parameters`
    Parameters,
    /// `_buffers`
    Buffers,
    /// `_modules`
    Modules,
}

impl ModuleTable {
    /// Returns the attribute of `nn.Module` that is the table.
    #[must_use]
    pub const fn attribute(self) -> &'static str {
        match self {
            Self::Parameters => "_parameters",
            Self::Buffers => "_buffers",
            Self::Modules => "_modules",
        }
    }
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// A parameter of the frame's function, by its slot (`co_varnames` order). Prints as `L['x']`.
    Local {
        /// Position in the frame's locals.
        slot: u32,
        /// The parameter's name.
        name: Name,
    },
    /// A global of the frame's function. Prints as `G['torch']`.
    Global(Name),
    /// A builtin of the frame's function. The name must not be a global: guard [`Source::Global`] as absent, too.
    Builtin(Name),
    /// The frame's function itself, for code that writes to an object reached from it. Prints as `F`.
    Function,
    /// The contents of a free variable of the frame's function; `index` counts `co_freevars`.
    Free {
        /// Position in the function's closure.
        index: u32,
        /// The variable's name.
        name: Name,
    },
    /// An object that the guards hold directly, by a weak reference; they become invalid when it dies.
    Held {
        /// From [`crate::GuardBuilder::hold`].
        id: HeldId,
        /// Its printed form, such as a function's qualified name.
        name: Name,
    },
    /// The value that an instance stores under a name: in its dictionary or inline values.
    Attr(SourceId, Name),
    /// The value that an instance stores in a slot (`__slots__`) of that name.
    Slot(SourceId, Name),
    /// The result of looking a name up along a class's MRO: the raw class attribute, no descriptor is called.
    TypeAttr(SourceId, Name),
    /// `getattr(base, name)`. May run Python and is evaluated on every check; for attributes of C objects that have no storage
    /// to read.
    GetAttr(SourceId, Name),
    /// `type(base)`.
    Type(SourceId),
    /// The value under a constant key of a dict.
    Item(SourceId, Constant),
    /// An item of a tuple, a list or a deque.
    Index(SourceId, u32),
    /// The key at a position of a dict.
    DictKey(SourceId, u32),
    /// The value at a position of a dict.
    DictValue(SourceId, u32),
    /// `base.__defaults__[i]` of a function.
    Default(SourceId, u32),
    /// `base.__kwdefaults__[name]` of a function.
    KwDefault(SourceId, Name),
    /// `base.__defaults__` of a function, as a whole.
    Defaults(SourceId),
    /// `base.__kwdefaults__` of a function, as a whole.
    KwDefaults(SourceId),
    /// `base.__mro__` of a class.
    Mro(SourceId),
    /// `base(*arguments)`: the result of a C function, which is called on every check. It must not change anything.
    Answer(SourceId, Constant),
    /// True if a function under `functools.lru_cache` has cached a call with these `(arguments, keywords)`.
    Remembers(SourceId, Constant),
    /// The cached result of that call; nothing if it is not cached. The function is called, so that the hit is counted, but only if it will
    /// answer from its cache.
    Remembered(SourceId, Constant),
    /// The contents of a cell of a function's closure; the name is for printing.
    Closure {
        /// The function.
        base: SourceId,
        /// Position in its closure.
        index: u32,
        /// The variable's name.
        name: Name,
    },
    /// A cell of a function's closure itself, by its position.
    ClosureCell(SourceId, u32),
    /// The contents of a cell object.
    Cell(SourceId),
    /// `base.__code__` of a function.
    Code(SourceId),
    /// `base.__globals__` of a function, as a whole.
    Globals(SourceId),
    /// A global of a function other than the frame's: `base.__globals__[name]`.
    GlobalOf(SourceId, Name),
    /// A builtin of a function other than the frame's.
    BuiltinOf(SourceId, Name),
    /// `base.__func__` of a bound method.
    MethodFunction(SourceId),
    /// `base.__self__` of a bound method.
    MethodSelf(SourceId),
    /// A parameter, buffer or submodule in its `nn.Module`'s own table.
    Member(SourceId, ModuleTable, Name),
    /// `base.get()` of a context variable.
    ContextVar(SourceId),
    /// The value to which a context variable is set; nothing if it is not set, even if it has a default of its own.
    ContextValue(SourceId),
    /// `base()` of a weak reference; nothing when it is dead.
    Referent(SourceId),
    /// The mapping that a view of a dict, or a `types.MappingProxyType`, shows.
    Viewed(SourceId),
    /// A number computed by the program. It is not read itself; its operands are.
    Computed(Arc<Computed>),
}

/// Matches the sources that are steps from another one.
macro_rules! step {
    ($base:ident) => {
        Source::Attr($base, _)
            | Source::Slot($base, _)
            | Source::TypeAttr($base, _)
            | Source::GetAttr($base, _)
            | Source::Type($base)
            | Source::Item($base, _)
            | Source::Index($base, _)
            | Source::DictKey($base, _)
            | Source::DictValue($base, _)
            | Source::Default($base, _)
            | Source::KwDefault($base, _)
            | Source::Defaults($base)
            | Source::KwDefaults($base)
            | Source::Mro($base)
            | Source::Answer($base, _)
            | Source::Remembers($base, _)
            | Source::Remembered($base, _)
            | Source::Closure { base: $base, .. }
            | Source::ClosureCell($base, _)
            | Source::Cell($base)
            | Source::Code($base)
            | Source::Globals($base)
            | Source::GlobalOf($base, _)
            | Source::BuiltinOf($base, _)
            | Source::MethodFunction($base)
            | Source::MethodSelf($base)
            | Source::Member($base, ..)
            | Source::ContextVar($base)
            | Source::ContextValue($base)
            | Source::Referent($base)
            | Source::Viewed($base)
    };
}

impl Source {
    /// Returns the source from which it is a step; None for the roots.
    #[must_use]
    pub fn base(&self) -> Option<SourceId> {
        match self {
            Self::Local { .. }
            | Self::Global(_)
            | Self::Builtin(_)
            | Self::Function
            | Self::Free { .. }
            | Self::Held { .. }
            | Self::Computed(_) => None,
            step!(base) => Some(*base),
        }
    }
}

impl Source {
    /// Returns the same step from the base's replacement in `numbers`; a root is unchanged.
    pub(crate) fn moved(&self, numbers: &FxHashMap<SourceId, SourceId>) -> Self {
        let mut moved = self.clone();
        match &mut moved {
            Self::Local { .. } | Self::Global(_) | Self::Builtin(_) | Self::Function | Self::Free { .. } | Self::Held { .. } => {}
            Self::Computed(computed) => {
                let computed = Arc::make_mut(computed);
                for operand in [&mut computed.left, &mut computed.right] {
                    if let Operand::Reached(source, _) = operand {
                        *source = numbers.get(source).copied().unwrap_or(*source);
                    }
                }
            }
            step!(base) => *base = numbers.get(base).copied().unwrap_or(*base),
        }
        moved
    }
}

/// The table of sources. Bases precede the sources built on them.
#[derive(Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
    /// The number of steps from a root to each.
    depths: Vec<u32>,
    ids: FxHashMap<Source, SourceId>,
}

impl Sources {
    /// Returns the number of a source, new or known.
    pub fn intern(&mut self, source: Source) -> SourceId {
        if let Some(&id) = self.ids.get(&source) {
            return id;
        }
        let id = SourceId(self.list.len() as u32);
        self.depths.push(source.base().map_or(0, |base| self.depths[base.index()] + 1));
        self.list.push(source.clone());
        self.ids.insert(source, id);
        id
    }

    /// Returns the number of a source, if it is known.
    pub(crate) fn find(&self, source: &Source) -> Option<SourceId> {
        self.ids.get(source).copied()
    }

    /// Returns all of them with their numbers, bases first.
    pub(crate) fn numbered(&self) -> impl DoubleEndedIterator<Item = (SourceId, &Source)> {
        self.list.iter().enumerate().map(|(number, source)| (SourceId(number as u32), source))
    }

    /// Forgets all except the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        for source in self.list.drain(len..) {
            self.ids.remove(&source);
        }
        self.depths.truncate(len);
    }

    /// Returns the number of steps from a root to a source.
    #[must_use]
    pub fn depth(&self, id: SourceId) -> usize {
        self.depths[id.index()] as usize
    }

    /// Returns all of them, bases first.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.list.iter()
    }

    /// Returns the number of sources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are no sources.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the source with a number.
    #[must_use]
    pub fn get(&self, id: SourceId) -> &Source {
        &self.list[id.index()]
    }

    /// Returns the Python expression that reaches the value.
    #[must_use]
    pub fn expression(&self, id: SourceId) -> String {
        let base = |base: &SourceId| self.expression(*base);
        match self.get(id) {
            Source::Local { name, .. } => format!("L['{name}']"),
            Source::Global(name) => format!("G['{name}']"),
            Source::Builtin(name) => format!("B['{name}']"),
            Source::Function => "F".to_owned(),
            Source::Free { name, .. } => format!("C['{name}']"),
            Source::Held { name, .. } => name.to_string(),
            Source::TypeAttr(b, name) => format!("___lookup({}, '{name}')", base(b)),
            Source::Type(b) => format!("type({})", base(b)),
            Source::Item(b, key) => format!("{}[{key}]", base(b)),
            Source::Index(b, i) => format!("{}[{i}]", base(b)),
            Source::DictKey(b, i) => format!("list({})[{i}]", base(b)),
            Source::DictValue(b, i) => format!("list({}.values())[{i}]", base(b)),
            Source::Default(b, i) => format!("{}.__defaults__[{i}]", base(b)),
            Source::KwDefault(b, name) => format!("{}.__kwdefaults__['{name}']", base(b)),
            Source::Defaults(b) => format!("{}.__defaults__", base(b)),
            Source::KwDefaults(b) => format!("{}.__kwdefaults__", base(b)),
            Source::Mro(b) => format!("{}.__mro__", base(b)),
            Source::Answer(b, arguments) => format!("{}(*{arguments})", base(b)),
            Source::Remembers(b, given) => format!("___remembers({}, {given})", base(b)),
            Source::Remembered(b, given) => format!("___remembered({}, {given})", base(b)),
            Source::Closure { base: b, index, .. } => format!("{}.__closure__[{index}].cell_contents", base(b)),
            Source::ClosureCell(b, index) => format!("{}.__closure__[{index}]", base(b)),
            Source::Cell(b) => format!("{}.cell_contents", base(b)),
            Source::Code(b) => format!("{}.__code__", base(b)),
            Source::Globals(b) => format!("{}.__globals__", base(b)),
            Source::GlobalOf(b, name) => format!("{}.__globals__['{name}']", base(b)),
            Source::BuiltinOf(b, name) => format!("{}.__builtins__['{name}']", base(b)),
            Source::MethodFunction(b) => format!("{}.__func__", base(b)),
            Source::MethodSelf(b) => format!("{}.__self__", base(b)),
            Source::Member(b, ModuleTable::Modules, name) => format!("{}._modules['{name}']", base(b)),
            Source::Attr(b, name) | Source::Slot(b, name) | Source::GetAttr(b, name) | Source::Member(b, _, name) => {
                attribute(&base(b), name)
            }
            Source::ContextVar(b) => format!("{}.get()", base(b)),
            Source::ContextValue(b) => format!("{}.get(___unset)", base(b)),
            Source::Referent(b) => format!("{}()", base(b)),
            Source::Viewed(b) => format!("___viewed({})", base(b)),
            Source::Computed(computed) => {
                let operand = |operand: &Operand| operand.text(|source| self.expression(source));
                format!("({} {} {})", operand(&computed.left), computed.op.symbol(), operand(&computed.right))
            }
        }
    }
}

/// Returns `base.name`, or a call if the name is not an identifier.
fn attribute(base: &str, name: &str) -> String {
    let mut letters = name.chars();
    let identifier = letters.next().is_some_and(|c| c.is_alphabetic() || c == '_') && letters.all(|c| c.is_alphanumeric() || c == '_');
    if identifier { format!("{base}.{name}") } else { format!("getattr({base}, '{name}')") }
}

impl fmt::Display for ModuleTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.attribute())
    }
}
