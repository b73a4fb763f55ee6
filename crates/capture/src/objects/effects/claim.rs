//! The claims about C functions, which justify calling them while capturing.
//!
//! Each claim comes from the source of CPython, torch or numpy, for the supported versions; `test_effects.py` checks it against what the
//! function does to instrumented arguments.

/// The state that a C function reads besides the arguments themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// The contents of the arguments, however deep.
    Arguments,
    /// Thread settings that the guard of torch's state compares.
    GuardedState,
    /// Other settings of the process or thread: each guard check calls the function again.
    OtherState,
}

/// The state that it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Nothing that Python can see.
    Nothing,
    /// Iterators among its arguments, which it advances; its result may do so later. The policy checks to whom they belong.
    Iterators,
    /// Its first argument, which the frame must have created.
    First,
    /// Thread settings, which the frame must restore.
    State,
}

/// The Python code that it may call back, which comes through the frame hook and is interpreted like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Special methods of the arguments, and of their contents.
    Specials(&'static [&'static str]),
    /// Those, and functions among its arguments.
    Functions(&'static [&'static str]),
}

/// The objects that refer to the arguments, or to their contents, after it has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing.
    Nothing,
    /// Its result.
    Result,
    /// Its first argument, and perhaps its result.
    First,
}

/// All these claims for one function, or for a group of similar functions.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// The state that it reads.
    pub reads: Reads,
    /// The state that it changes.
    pub writes: Writes,
    /// The Python code that it may call.
    pub calls: Calls,
    /// The objects that keep its arguments.
    pub keeps: Keeps,
}

impl Claim {
    /// Returns the special methods that it may call.
    pub fn specials(&self) -> &'static [&'static str] {
        match self.calls {
            Calls::Specials(names) | Calls::Functions(names) => names,
        }
    }
}

const QUIET: Calls = Calls::Specials(&[]);

/// Reads objects that never change once created, or only takes them.
pub const TAKES: Claim = Claim { reads: Reads::Arguments, writes: Writes::Nothing, calls: QUIET, keeps: Keeps::Result };

/// Checks whether its argument can be called.
pub const ASKS_FOR_CALL: Claim = Claim { calls: Calls::Specials(&["__call__"]), keeps: Keeps::Nothing, ..TAKES };

/// Computes from numbers, and from objects that convert to a number.
pub const NUMBERS: Claim = Claim {
    calls: Calls::Specials(&[
        "__abs__",
        "__bool__",
        "__ceil__",
        "__complex__",
        "__divmod__",
        "__float__",
        "__floor__",
        "__index__",
        "__int__",
        "__len__",
        "__length_hint__",
        "__pow__",
        "__rdivmod__",
        "__round__",
        "__rpow__",
        "__trunc__",
    ]),
    ..TAKES
};

/// Advances iterators.
pub const ITERATES: Claim = Claim {
    writes: Writes::Iterators,
    calls: Calls::Functions(&["__bool__", "__getitem__", "__iter__", "__len__", "__length_hint__", "__next__", "__reversed__"]),
    ..TAKES
};

/// Advances iterators, and hashes and compares their items.
pub const WALKS: Claim = Claim {
    calls: Calls::Functions(&[
        "__bool__",
        "__eq__",
        "__getitem__",
        "__ge__",
        "__gt__",
        "__hash__",
        "__iter__",
        "__le__",
        "__len__",
        "__length_hint__",
        "__lt__",
        "__next__",
        "__reversed__",
        "keys",
    ]),
    ..ITERATES
};

/// Computes numbers from iterables.
pub const FOLDS: Claim = Claim {
    writes: Writes::Iterators,
    calls: Calls::Specials(&[
        "__add__",
        "__float__",
        "__index__",
        "__iter__",
        "__len__",
        "__length_hint__",
        "__mul__",
        "__next__",
        "__radd__",
        "__rmul__",
    ]),
    ..TAKES
};

/// Creates text and bytes from objects.
pub const TEXTS: Claim = Claim {
    writes: Writes::Iterators,
    calls: Calls::Specials(&[
        "__bytes__",
        "__format__",
        "__index__",
        "__iter__",
        "__len__",
        "__length_hint__",
        "__next__",
        "__repr__",
        "__str__",
    ]),
    ..TAKES
};

/// Creates an iterator that advances another one and compares its items when it is advanced.
pub const GROUPS: Claim = Claim { calls: Calls::Functions(&["__bool__", "__eq__", "__getitem__", "__iter__", "__next__"]), ..ITERATES };

/// Creates an iterator that advances others and calls functions when it is advanced.
pub const LAZY: Claim = Claim {
    writes: Writes::Iterators,
    calls: Calls::Functions(&[
        "__add__",
        "__bool__",
        "__copy__",
        "__getitem__",
        "__index__",
        "__iter__",
        "__len__",
        "__length_hint__",
        "__next__",
        "__radd__",
        "__reversed__",
    ]),
    ..TAKES
};

/// Answers from settings that are guarded together.
pub const GUARDED: Claim = Claim { reads: Reads::GuardedState, keeps: Keeps::Nothing, ..TAKES };

/// Answers from settings that each guard check queries again.
pub const OTHER: Claim = Claim { reads: Reads::OtherState, keeps: Keeps::Nothing, ..TAKES };

/// The same, given a flag that need not be a bool.
pub const OTHER_BY_FLAG: Claim = Claim { calls: Calls::Specials(&["__bool__"]), ..OTHER };

/// Sets state of the thread.
pub const SETS: Claim = Claim { writes: Writes::State, keeps: Keeps::Nothing, ..TAKES };

/// For the classes in the table: slots and methods that change nothing. They call only methods of elements.
pub const METHODS: Claim = Claim { writes: Writes::Iterators, calls: Calls::Functions(&["any special method of the arguments"]), ..TAKES };

/// For the classes in the table: methods that change the object itself.
pub const MUTATORS: Claim = Claim { writes: Writes::First, keeps: Keeps::First, ..METHODS };
