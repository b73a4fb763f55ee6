//! Enumerations.

use tblgen::Record;

use crate::{Error, text};

/// An enum with a variant for each case, and how it stands in an attribute.
pub fn write(record: Record<'_>) -> Result<String, Error> {
    let info = record.def_value("enum")?;
    let (name, mnemonic) = (info.str_value("className")?, record.str_value("mnemonic")?);
    let mut cases = Vec::new();
    for case in info.list_of_defs_value("enumerants")? {
        cases.push((text::camel(case.str_value("symbol")?), case.str_value("str")?.to_owned(), case.int_value("value")?));
    }
    let variants = cases.iter().map(|(variant, word, _)| format!("    /// `{word}`\n    {variant},\n")).collect::<Vec<_>>().concat();
    let all: Vec<String> = cases.iter().map(|(variant, _, _)| format!("Self::{variant}")).collect();
    let numbers =
        cases.iter().map(|(variant, _, number)| format!("            {number} => Some(Self::{variant}),\n")).collect::<Vec<_>>().concat();
    let values =
        cases.iter().map(|(variant, _, number)| format!("            Self::{variant} => {number},\n")).collect::<Vec<_>>().concat();
    let words = cases.iter().map(|(variant, word, _)| format!("            Self::{variant} => \"{word}\",\n")).collect::<Vec<_>>().concat();
    let docs = text::docs("", info.str_value("summary")?, "");
    Ok(format!(
        r#"
{docs}#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum {name} {{
{variants}}}

impl {name} {{
    /// All of them.
    pub const ALL: &[Self] = &[{all}];

    /// How it is written.
    pub const fn word(self) -> &'static str {{
        match self {{
{words}        }}
    }}

    /// The one that is written so.
    pub fn of_word(word: &str) -> Option<Self> {{
        Self::ALL.iter().copied().find(|case| case.word() == word)
    }}
}}

impl AttrValue for {name} {{
    type Given<'a> = Self;

    fn read(attr: Attr) -> Option<Self> {{
        match attr.enumerator("{mnemonic}")? {{
{numbers}            _ => None,
        }}
    }}

    fn write(ctx: Ctx, given: Self) -> Attr {{
        let number = match given {{
{values}        }};
        Attr::of_enumerator(ctx, "{mnemonic}", number)
    }}
}}
"#,
        all = all.join(", "),
    ))
}
