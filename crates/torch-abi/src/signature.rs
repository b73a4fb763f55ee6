//! Op signatures, parsed from the text that torch prints for a schema.

use crate::TorchError;

/// The kind of one argument or result, without list and optional marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the schema language's types")]
pub enum Base {
    Tensor,
    Int,
    Float,
    Bool,
    Scalar,
    Str,
    DType,
    Layout,
    Device,
    MemoryFormat,
    Generator,
    Other,
}

/// A type: `Tensor?[]?` is a base with all three marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "one mark each")]
pub struct Ty {
    pub base: Base,
    /// True if the elements of a list, or the whole argument if it is not a list, may be None.
    pub optional: bool,
    pub list: bool,
    /// True if the list itself may be None.
    pub list_optional: bool,
    /// The required length of a list (`bool[3]`). A shorter `int[2]` is filled up by torch.
    pub length: Option<usize>,
}

impl Ty {
    /// One required tensor.
    pub(crate) const TENSOR: Self = Self { base: Base::Tensor, optional: false, list: false, list_optional: false, length: None };
}

/// `aten::cat(Tensor[] tensors, int dim=0) -> Tensor`, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the parts of the text")]
pub struct Signature {
    /// The name with its namespace: `aten::cat`.
    pub name: String,
    /// Empty for the default overload.
    pub overload: String,
    pub args: Vec<Ty>,
    pub results: Vec<Ty>,
    /// True if an argument is a list of a fixed number of symbolic integers (`SymInt[2]`). torch refuses the list that the C ABI builds for
    /// it.
    pub symbolic_lists: bool,
    /// True if the op writes to an argument (`Tensor(a!)`).
    pub writes: bool,
}

impl Signature {
    /// Parses the text of a schema.
    pub fn parse(text: &str) -> Result<Self, TorchError> {
        let bad = || TorchError::new(format!("cannot read the op signature '{text}'"));
        let open = text.find('(').ok_or_else(bad)?;
        let close = open + matching(&text[open..]).ok_or_else(bad)?;
        let full = text[..open].trim();
        let (name, overload) = full.split_once('.').unwrap_or((full, ""));
        let args = split(&text[open + 1..close]).filter(|a| *a != "*").map(argument_type).collect();
        let results = text[close + 1..].trim().strip_prefix("->").ok_or_else(bad)?.trim();
        // A tuple of results is parenthesised; an alias mark such as `Tensor(a)` does not start with the parenthesis.
        let results = match results.strip_prefix('(').and_then(|r| r.strip_suffix(')')) {
            Some(tuple) => split(tuple).map(argument_type).collect(),
            None => vec![argument_type(results)],
        };
        let fixed = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
        let symbolic_lists = text.split("SymInt[").skip(1).any(fixed);
        let writes = text[open..close].contains('!');
        Ok(Self { name: name.to_owned(), overload: overload.to_owned(), args, results, symbolic_lists, writes })
    }
}

/// Returns the index of the parenthesis that closes the one at the start of `text`.
fn matching(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the parts between top-level commas, trimmed, without empty ones.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|p| !p.is_empty())
}

/// Parses the type in `Tensor(a!)[]? name=default`.
fn argument_type(text: &str) -> Ty {
    let (mut word, mut marks, mut digits, mut depth) = (String::new(), String::new(), String::new(), 0);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth > 0 => {}
            ' ' => break,
            '?' | '[' | ']' => marks.push(c),
            _ if marks.ends_with('[') => digits.push(c),
            _ => word.push(c),
        }
    }
    let base = match word.as_str() {
        "Tensor" => Base::Tensor,
        "int" | "SymInt" => Base::Int,
        "float" => Base::Float,
        "bool" | "SymBool" => Base::Bool,
        "Scalar" | "number" => Base::Scalar,
        "str" => Base::Str,
        "ScalarType" => Base::DType,
        "Layout" => Base::Layout,
        "Device" => Base::Device,
        "MemoryFormat" => Base::MemoryFormat,
        "Generator" => Base::Generator,
        _ => Base::Other,
    };
    let list = marks.contains('[');
    let length = if base == Base::Bool { digits.parse().ok() } else { None };
    Ty { base, list, optional: marks.starts_with('?'), list_optional: list && marks.ends_with('?'), length }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(text: &str) -> Ty {
        argument_type(text)
    }

    #[test]
    fn reads_a_convolution() {
        let s = Signature::parse(
            "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, \
             bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        )
        .expect("parses");
        assert_eq!((s.name.as_str(), s.overload.as_str(), s.args.len(), s.results.len()), ("aten::convolution", "", 9, 1));
        assert_eq!(s.args[2], Ty { optional: true, ..Ty::TENSOR });
        assert_eq!(s.args[3], Ty { base: Base::Int, list: true, ..Ty::TENSOR });
    }

    #[test]
    fn reads_marks_aliases_defaults_and_tuples() {
        let s = Signature::parse(
            "aten::sort.values_stable(Tensor self, *, bool? stable, int[2] pad=[0, 1], Tensor(a!) values, Tensor(b -> *)[] all) -> (Tensor(a!) values, Tensor(b!) indices)",
        )
        .expect("parses");
        assert_eq!((s.overload.as_str(), s.args.len(), s.results.len()), ("values_stable", 5, 2));
        assert!(s.args[1].optional && s.args[2].list && !s.args[2].optional && s.args[4].list);
        assert_eq!(ty("Tensor?[] indices"), Ty { optional: true, list: true, ..Ty::TENSOR });
        assert_eq!(ty("float[]? scales=None"), Ty { base: Base::Float, list: true, list_optional: true, ..Ty::TENSOR });
        assert_eq!((ty("bool[3] output_mask").length, ty("int[2] pad").length), (Some(3), None));
        assert!(s.writes && !Signature::parse("aten::x(Tensor self) -> Tensor(a!)").expect("parses").writes);
        assert_eq!(Signature::parse("aten::x(Tensor self) -> Tensor(a)").expect("parses").results.len(), 1);
        assert!(Signature::parse("aten::x(Tensor self) -> ()").expect("parses").results.is_empty());
        assert!(Signature::parse("nonsense").is_err());
    }
}
