//! Names that the interpreter itself looks up.

use pyo3::{prelude::*, sync::PyOnceLock, types::PyString};

/// Declares [`Names`] from pairs of field and name.
macro_rules! names {
    ($($field:ident = $name:literal,)*) => {
        /// Interned strings.
        pub(crate) struct Names {
            $(#[doc = concat!("`", $name, "`")] pub $field: Py<PyString>,)*
        }

        impl Names {
            fn new(py: Python<'_>) -> Self {
                Self { $($field: PyString::intern(py, $name).unbind(),)* }
            }
        }
    };
}

names! {
    enter = "__enter__",
    exit = "__exit__",
    aenter = "__aenter__",
    aexit = "__aexit__",
    import = "__import__",
    name = "__name__",
    spec = "__spec__",
    initializing = "_initializing",
    all = "__all__",
    dict = "__dict__",
    build_class = "__build_class__",
    annotations = "__annotations__",
    match_args = "__match_args__",
    get = "get",
    keys = "keys",
    split = "split",
    qualname = "__qualname__",
    module = "__module__",
}

/// Returns the names, created at first use.
pub(crate) fn interned(py: Python<'_>) -> &'static Names {
    static NAMES: PyOnceLock<Names> = PyOnceLock::new();
    NAMES.get_or_init(py, || Names::new(py))
}
