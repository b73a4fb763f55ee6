//! Enumerations.

use tblgen::Record;

use crate::{Error, text};

/// Writes an enum with a variant for each case, and the cases' spellings and numbers.
pub fn write(info: Record<'_>) -> Result<String, Error> {
    let name = info.str_value("className")?;
    let mut cases = Vec::new();
    for case in info.list_of_defs_value("enumerants")? {
        cases.push((text::camel(case.str_value("symbol")?), case.str_value("str")?.to_owned(), case.int_value("value")?));
    }
    let all: Vec<String> = cases.iter().map(|(variant, _, _)| format!("Self::{variant}")).collect();
    let each = |line: &dyn Fn(&str, &str, i64) -> String| {
        cases.iter().map(|(variant, word, number)| line(variant, word, *number)).collect::<Vec<_>>().concat()
    };
    let variants = each(&|variant, word, _| format!("    /// `{word}`\n    {variant},\n"));
    let words = each(&|variant, word, _| format!("            Self::{variant} => \"{word}\",\n"));
    let numbers = each(&|variant, _, number| format!("            Self::{variant} => {number},\n"));
    let docs = text::docs("", info.str_value("summary")?, "");
    Ok(format!(
        r"
{docs}#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum {name} {{
{variants}}}

impl {name} {{
    /// All cases.
    pub const ALL: &[Self] = &[{all}];

    /// Returns the spelling of the case.
    pub const fn word(self) -> &'static str {{
        match self {{
{words}        }}
    }}

    /// Returns the case with this spelling.
    pub fn of_word(word: &str) -> Option<Self> {{
        Self::ALL.iter().copied().find(|case| case.word() == word)
    }}

    /// Returns the case's number in the C API.
    pub(crate) const fn number(self) -> i64 {{
        match self {{
{numbers}        }}
    }}

    /// Returns the case with this number in the C API.
    pub(crate) fn of_number(number: i64) -> Option<Self> {{
        Self::ALL.iter().copied().find(|case| case.number() == number)
    }}
}}
",
        all = all.join(", "),
    ))
}

/// Writes the attribute form of an enumeration.
pub fn write_attribute(record: Record<'_>) -> Result<String, Error> {
    let (name, mnemonic) = (record.def_value("enum")?.str_value("className")?, record.str_value("mnemonic")?);
    Ok(format!(
        r#"
impl AttrValue for {name} {{
    type Given<'a> = Self;

    fn read(attr: Attr) -> Option<Self> {{
        Self::of_number(attr.enumerator("{mnemonic}")?)
    }}

    fn write(ctx: Ctx, given: Self) -> Attr {{
        Attr::of_enumerator(ctx, "{mnemonic}", given.number())
    }}
}}
"#,
    ))
}
