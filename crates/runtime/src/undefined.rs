//! The undefined symbols of an object file, read before anything is linked.

use object::elf::{FileHeader64, SHN_UNDEF, STB_LOCAL};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, SymbolIndex};

/// The global symbols of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Symbols {
    /// Those referred to, but not defined.
    pub undefined: Vec<String>,
    pub defined: Vec<String>,
}

impl Symbols {
    /// Reads them; returns an error if the bytes are not a valid ELF object for this machine.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let bad = |e: object::Error| format!("not a sound object file: {e}");
        let header = FileHeader64::<Endianness>::parse(bytes).map_err(bad)?;
        let endian = header.endian().map_err(bad)?;
        let machine = if cfg!(target_arch = "aarch64") { object::elf::EM_AARCH64 } else { object::elf::EM_X86_64 };
        if header.e_machine(endian) != machine || header.e_type(endian) != object::elf::ET_REL {
            return Err("not an object file for this machine".to_owned());
        }
        let sections = header.sections(endian, bytes).map_err(bad)?;
        let symbols = sections.symbols(endian, bytes, object::elf::SHT_SYMTAB).map_err(bad)?;
        let mut out = Self::default();
        for (index, symbol) in symbols.enumerate() {
            if index == SymbolIndex(0) || symbol.st_bind() == STB_LOCAL {
                continue;
            }
            let name = String::from_utf8_lossy(symbol.name(endian, symbols.strings()).map_err(bad)?).into_owned();
            if symbol.st_shndx(endian) == SHN_UNDEF {
                out.undefined.push(name);
            } else {
                out.defined.push(name);
            }
        }
        Ok(out)
    }
}
