//! Process settings that the text of numbers depends on: the maximum number of digits of an int (`sys.set_int_max_str_digits`), and the
//! printing options of numpy (`numpy.set_printoptions`). Each guard check queries them again.

use pyo3::{
    intern,
    prelude::*,
    types::{PyByteArray, PyBytes, PyInt, PyString},
};

use crate::{
    floors::Reads,
    graph_break::{Outcome, reason},
};

/// The number of digits up to which an int can be converted to text and back, regardless of the limit
/// (`sys.int_info.str_digits_check_threshold`).
const ALWAYS_TEXT: usize = 640;

/// The number of bits up to which an int has at most that many digits.
const BITS: usize = 2_126;

impl<'py> Reads<'py> {
    /// Guards the settings that the text of a number may depend on. `prints` is true for C code that formats its arguments; with a long
    /// int, any C code may.
    pub(crate) fn guard_text_of(&self, value: &Bound<'py, PyAny>, prints: bool) -> Outcome<()> {
        if self.torch.is_numpy_scalar(value) {
            return if prints { self.guard_printing_of_numpy() } else { Ok(()) };
        }
        if value.is_instance_of::<PyInt>()
            && value.extract::<i64>().is_err()
            && self.py.get_type::<PyInt>().call_method1(intern!(self.py, "bit_length"), (value,))?.extract::<usize>()? > BITS
        {
            return self.guard_digits();
        }
        Ok(())
    }

    /// Guards the maximum number of digits of an int, if a text is long enough to contain that many.
    pub(crate) fn guard_digits_in(&self, text: &Bound<'py, PyAny>) -> Outcome<()> {
        let is_text = text.is_instance_of::<PyString>() || text.is_instance_of::<PyBytes>() || text.is_instance_of::<PyByteArray>();
        if is_text && text.len()? > ALWAYS_TEXT { self.guard_digits() } else { Ok(()) }
    }

    fn guard_digits(&self) -> Outcome<()> {
        let ask = dynamlir_cpython_abi::import(self.py, "sys")?.getattr("get_int_max_str_digits")?;
        self.ask_again(&ask, &[], &Vec::new()).map(drop)
    }

    fn guard_printing_of_numpy(&self) -> Outcome<()> {
        for module in ["numpy._core.arrayprint", "numpy.core.arrayprint"] {
            let Ok(module) = dynamlir_cpython_abi::import(self.py, module) else { continue };
            if let Some(ask) = module.getattr_opt("_get_legacy_print_mode")? {
                return self.ask_again(&ask, &[], &Vec::new()).map(drop);
            }
        }
        self.break_graph(reason::C_FUNCTION, "text of numpy's numbers, which its settings decide")
    }
}
