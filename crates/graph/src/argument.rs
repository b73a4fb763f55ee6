//! The arguments of a node: other nodes, constants, and containers of them.

use std::fmt::{self, Display};

use crate::NodeId;

/// One argument of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument<O> {
    /// The value of another node.
    Node(NodeId),
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An integer that fits a machine word.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(String),
    /// A list.
    List(Vec<Argument<O>>),
    /// A tuple.
    Tuple(Vec<Argument<O>>),
    /// A dict, in order.
    Dict(Vec<(Argument<O>, Argument<O>)>),
    /// A slice: start, stop, step.
    Slice(Box<[Argument<O>; 3]>),
    /// Any other object, with its text.
    Object(O, String),
}

impl<O> Argument<O> {
    /// Calls `visit` with every node in the argument, in order.
    pub fn nodes(&self, visit: &mut impl FnMut(NodeId)) {
        match self {
            Self::Node(id) => visit(*id),
            Self::List(items) | Self::Tuple(items) => items.iter().for_each(|item| item.nodes(visit)),
            Self::Dict(entries) => entries.iter().for_each(|(key, value)| {
                key.nodes(visit);
                value.nodes(visit);
            }),
            Self::Slice(parts) => parts.iter().for_each(|part| part.nodes(visit)),
            _ => {}
        }
    }

    /// Calls `visit` with every opaque object in the argument, in the order in which they are written.
    pub(crate) fn objects<'a>(&'a self, visit: &mut impl FnMut(&'a O)) {
        match self {
            Self::Object(object, _) => visit(object),
            Self::List(items) | Self::Tuple(items) => items.iter().for_each(|item| item.objects(visit)),
            Self::Dict(entries) => entries.iter().for_each(|(key, value)| {
                key.objects(visit);
                value.objects(visit);
            }),
            Self::Slice(parts) => parts.iter().for_each(|part| part.objects(visit)),
            _ => {}
        }
    }

    /// The same argument with other nodes and objects; `None` if a node does not have a counterpart.
    pub fn map<P>(&self, node: &impl Fn(NodeId) -> Option<NodeId>, object: &impl Fn(&O) -> P) -> Option<Argument<P>> {
        let all = |items: &[Self]| items.iter().map(|item| item.map(node, object)).collect::<Option<Vec<_>>>();
        Some(match self {
            Self::Node(id) => Argument::Node(node(*id)?),
            Self::None => Argument::None,
            Self::Bool(value) => Argument::Bool(*value),
            Self::Int(value) => Argument::Int(*value),
            Self::Float(value) => Argument::Float(*value),
            Self::Str(value) => Argument::Str(value.clone()),
            Self::List(items) => Argument::List(all(items)?),
            Self::Tuple(items) => Argument::Tuple(all(items)?),
            Self::Dict(entries) => {
                let pair = |(key, value): &(Self, Self)| Some((key.map(node, object)?, value.map(node, object)?));
                Argument::Dict(entries.iter().map(pair).collect::<Option<_>>()?)
            }
            Self::Slice(parts) => Argument::Slice(Box::new(all(&parts[..])?.try_into().ok()?)),
            Self::Object(value, text) => Argument::Object(object(value), text.clone()),
        })
    }

    /// Replaces each node by the one at its index in `places`.
    pub(crate) fn renumber(&mut self, places: &[NodeId]) {
        match self {
            Self::Node(id) => *id = places[id.index()],
            Self::List(items) | Self::Tuple(items) => items.iter_mut().for_each(|item| item.renumber(places)),
            Self::Dict(entries) => entries.iter_mut().for_each(|(key, value)| {
                key.renumber(places);
                value.renumber(places);
            }),
            Self::Slice(parts) => parts.iter_mut().for_each(|part| part.renumber(places)),
            _ => {}
        }
    }

    /// The argument as Python text; `name` gives the text of a node, `object` that of an opaque object.
    pub(crate) fn write(
        &self,
        out: &mut impl fmt::Write,
        name: &impl Fn(NodeId) -> String,
        object: &mut impl FnMut(&O, &str) -> String,
    ) -> fmt::Result {
        match self {
            Self::Node(id) => out.write_str(&name(*id)),
            Self::None => out.write_str("None"),
            Self::Bool(value) => out.write_str(if *value { "True" } else { "False" }),
            Self::Int(value) => write!(out, "{value}"),
            Self::Float(value) => write!(out, "{}", Float(*value)),
            Self::Str(value) => write!(out, "{}", Quoted(value)),
            Self::List(items) => {
                out.write_char('[')?;
                write_items(items, out, name, object)?;
                out.write_char(']')
            }
            Self::Tuple(items) => {
                out.write_char('(')?;
                write_items(items, out, name, object)?;
                out.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            Self::Dict(entries) => {
                out.write_char('{')?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    out.write_str(if at == 0 { "" } else { ", " })?;
                    key.write(out, name, object)?;
                    out.write_str(": ")?;
                    value.write(out, name, object)?;
                }
                out.write_char('}')
            }
            Self::Slice(parts) => {
                out.write_str("slice(")?;
                write_items(&parts[..], out, name, object)?;
                out.write_char(')')
            }
            Self::Object(value, text) => out.write_str(&object(value, text)),
        }
    }
}

/// Writes `a, b, c`.
pub(crate) fn write_items<O>(
    items: &[Argument<O>],
    out: &mut impl fmt::Write,
    name: &impl Fn(NodeId) -> String,
    object: &mut impl FnMut(&O, &str) -> String,
) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        out.write_str(if at == 0 { "" } else { ", " })?;
        item.write(out, name, object)?;
    }
    Ok(())
}

/// A float in Python's notation; infinities and NaN as calls that evaluate to them.
struct Float(f64);

impl Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value.is_nan() => f.write_str("float('nan')"),
            f64::INFINITY => f.write_str("float('inf')"),
            f64::NEG_INFINITY => f.write_str("float('-inf')"),
            // Both print the shortest digits that parse back to the same value; Rust writes the exponent as Python does.
            value => write!(f, "{value:?}"),
        }
    }
}

/// A string in single quotes, escaped as in Python.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'")?;
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '\'' => f.write_str("\\'")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_control() => write!(f, "\\u{:04x}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(argument: &Argument<&str>) -> String {
        let mut out = String::new();
        argument.write(&mut out, &|id| format!("n{}", id.index()), &mut |_, text| text.to_owned()).unwrap();
        out
    }

    #[test]
    fn constants_print_as_python() {
        for (argument, expected) in [
            (Argument::None, "None"),
            (Argument::Bool(true), "True"),
            (Argument::Float(1.0), "1.0"),
            (Argument::Float(1e30), "1e30"),
            (Argument::Float(f64::NEG_INFINITY), "float('-inf')"),
            (Argument::Str("it's\n".into()), "'it\\'s\\n'"),
            (Argument::Tuple(vec![Argument::Int(1)]), "(1,)"),
            (Argument::List(vec![Argument::Int(1), Argument::None]), "[1, None]"),
            (Argument::Dict(vec![(Argument::Str("a".into()), Argument::Int(1))]), "{'a': 1}"),
            (Argument::Slice(Box::new([Argument::None, Argument::Int(2), Argument::None])), "slice(None, 2, None)"),
            (Argument::Object("o", "torch.float32".into()), "torch.float32"),
        ] {
            assert_eq!(text(&argument), expected);
        }
    }
}
