//! The opcodes of all supported versions as one enumeration.

use std::fmt;

mod list;
pub use list::Opcode;

/// Defines [`Opcode`] and its names from one list.
macro_rules! opcodes {
    ($($variant:ident = $name:literal,)*) => {
        /// An opcode by name; its number depends on the version. Specialised and instrumented forms are not included.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Opcode {
            /// All opcodes, in the order of their names.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns CPython's name, such as `LOAD_FAST`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}
use opcodes;

impl Opcode {
    /// Returns the opcode of this name, from any version that has it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|opcode| opcode.name() == name)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
