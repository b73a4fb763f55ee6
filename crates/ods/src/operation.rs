//! Operations.

use std::collections::BTreeMap;

use tblgen::{Record, TypedInit};

use crate::{
    Error,
    attribute::Kind,
    text::{camel, docs, identifier, markdown},
};

/// The number of operands or results with one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    One,
    Optional,
    Variadic,
}

/// An argument of the definition.
enum Argument {
    Operand(String, Count),
    Attribute(String, Kind),
}

/// The definition of an operation.
pub struct Operation {
    /// `dynamo.slice`.
    name: String,
    /// `SliceOp`.
    rust: String,
    docs: String,
    /// Its summary and description, for editors.
    documentation: String,
    arguments: Vec<Argument>,
    results: Vec<(String, Count)>,
    /// True if an attribute stores the number of operands for each name.
    sized: bool,
    /// True if the type of the result is that of the first operand.
    same_type: bool,
}

impl Operation {
    pub fn read(record: Record<'_>) -> Result<Self, Error> {
        let dialect = record.def_value("opDialect")?.str_value("name")?;
        let mnemonic = record.str_value("opName")?;
        let name = format!("{dialect}.{mnemonic}");
        let mut arguments = Vec::new();
        for (argument, constraint) in named(&name, record, "arguments")? {
            arguments.push(if constraint.subclass_of("Attr") || constraint.subclass_of("AttrConstraint") {
                let kind = Kind::read(&format!("{name}: {argument}"), constraint)?;
                Argument::Attribute(argument, kind)
            } else {
                Argument::Operand(argument, count(constraint))
            });
        }
        let results = named(&name, record, "results")?.into_iter().map(|(result, constraint)| (result, count(constraint))).collect();
        let traits: Vec<String> = record.list_of_defs_value("traits")?.iter().filter_map(|r| r.name().ok().map(str::to_owned)).collect();
        let has = |wanted: &str| traits.iter().any(|name| name == wanted);
        let (summary, description) = (record.str_value("summary")?, record.str_value("description").unwrap_or_default());
        let docs = docs("", &format!("`{name}`: {summary}"), &description.replace("```mlir", "```text"));
        let operation = Self {
            rust: format!("{}Op", camel(mnemonic)),
            docs,
            documentation: markdown(summary, description),
            arguments,
            results,
            sized: has("AttrSizedOperandSegments"),
            same_type: has("SameOperandsAndResultType"),
            name,
        };
        operation.check()?;
        Ok(operation)
    }

    /// Checks that at most one name is variadic if there are no segment sizes.
    fn check(&self) -> Result<(), Error> {
        let several = |counts: &mut dyn Iterator<Item = Count>| counts.filter(|count| *count != Count::One).count() > 1;
        if !self.sized && several(&mut self.operands().map(|(_, count)| count)) || several(&mut self.results.iter().map(|r| r.1)) {
            return Err(Error::Unknown { definition: self.name.clone(), what: "which operands or results belong to which name".into() });
        }
        Ok(())
    }

    fn operands(&self) -> impl Iterator<Item = (&str, Count)> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Operand(name, count) => Some((name.as_str(), *count)),
            Argument::Attribute(..) => None,
        })
    }

    /// Writes the type with its accessors and builder.
    pub fn write(&self) -> String {
        let Self { name, rust, docs, documentation, .. } = self;
        format!(
            r#"
{docs}#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct {rust}(Op);

impl {rust} {{
    /// The operation's name.
    pub const NAME: &'static str = "{name}";

    /// Its documentation, as Markdown.
    pub const DOCUMENTATION: &'static str = {documentation:?};

    /// Returns the operation as this type if it has this name.
    pub fn cast(op: Op) -> Option<Self> {{
        op.is(Self::NAME).then_some(Self(op))
    }}

    /// Returns the operation that defines a value, as this type, if it has this name.
    pub fn defining(value: Value) -> Option<Self> {{
        value.def().and_then(Self::cast)
    }}

    /// Returns the untyped operation.
    pub const fn op(self) -> Op {{
        self.0
    }}
{accessors}{builder}}}
"#,
            accessors = self.accessors(),
            builder = self.builder(),
        )
    }

    fn accessors(&self) -> String {
        let mut source = String::new();
        let operands: Vec<_> = self.operands().collect();
        for (index, (name, count)) in operands.iter().enumerate() {
            let range = self.range("operand", index, &operands, *count);
            source += &accessor(name, *count, "operand", &range);
        }
        let results: Vec<_> = self.results.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        for (index, (name, count)) in results.iter().enumerate() {
            let range = self.range("result", index, &results, *count);
            source += &accessor(name, *count, "result", &range);
        }
        for argument in &self.arguments {
            if let Argument::Attribute(name, kind) = argument {
                source += &attribute_accessors(name, kind);
            }
        }
        source
    }

    /// The position of the operands or results with a name: a number, or a range.
    fn range(&self, what: &str, index: usize, all: &[(&str, Count)], count: Count) -> String {
        if what == "operand" && self.sized {
            return format!("self.0.segment({index})");
        }
        let after = all.len() - index - 1;
        let single_before = all[..index].iter().all(|(_, count)| *count == Count::One);
        match count {
            Count::One if single_before => format!("{index}"),
            Count::One => format!("self.0.num_{what}s() - {}", after + 1),
            Count::Optional | Count::Variadic if after == 0 => format!("{index}..self.0.num_{what}s()"),
            Count::Optional | Count::Variadic => format!("{index}..self.0.num_{what}s() - {after}"),
        }
    }

    fn builder(&self) -> String {
        let mut parameters = vec!["b: &Builder".to_owned()];
        let mut segments = Vec::new();
        let mut body = String::new();
        let single = self.operands().all(|(_, count)| count == Count::One);
        let list: Vec<String> = self.operands().map(|(name, _)| identifier(name)).collect();
        if !single {
            body += "        let mut operands: Vec<Value> = Vec::new();\n";
        }
        for argument in &self.arguments {
            match argument {
                Argument::Operand(name, count) => {
                    let name = identifier(name);
                    let (ty, push, size) = match count {
                        Count::One => ("Value", format!("operands.push({name})"), "1".to_owned()),
                        Count::Optional => ("Option<Value>", format!("operands.extend({name})"), format!("{name}.iter().len() as i32")),
                        Count::Variadic => ("&[Value]", format!("operands.extend_from_slice({name})"), format!("{name}.len() as i32")),
                    };
                    parameters.push(format!("{name}: {ty}"));
                    segments.push(size);
                    if !single {
                        body += &format!("        {push};\n");
                    }
                }
                Argument::Attribute(_, kind) if is_set_later(kind) => {}
                Argument::Attribute(name, kind) => parameters.push(format!("{}: {}", identifier(name), kind.taken())),
            }
        }
        let operands = if single { format!("&[{}]", list.join(", ")) } else { "&operands".to_owned() };
        let results = self.built_results(&mut parameters);
        body += &self.built_attributes(&segments);
        let expects = if parameters.len() > 7 {
            "    #[expect(clippy::too_many_arguments, reason = \"generated: as many as the definition has\")]\n"
        } else {
            ""
        };
        format!(
            "\n    /// Builds the operation: operands and attributes in the order of the definition{}.\n{expects}    pub fn build({}) -> Self {{\n{body}        Self(b.op(Self::NAME, {operands}, {results}, &attrs))\n    }}\n",
            if self.same_type || self.results.is_empty() { "" } else { ", then the types of the results" },
            parameters.join(", "),
        )
    }

    /// The types of results, as an expression; adds the builder's parameters for them to `parameters`.
    fn built_results(&self, parameters: &mut Vec<String>) -> String {
        match &self.results[..] {
            [] => "&[]".to_owned(),
            [(_, Count::One)] if self.same_type => {
                let first = self.operands().next().map(|(name, _)| identifier(name)).unwrap_or_default();
                format!("&[{first}.ty()]")
            }
            [(name, Count::One)] => {
                parameters.push(format!("{name}: Type"));
                format!("&[{name}]")
            }
            [(name, _)] => {
                parameters.push(format!("{name}: &[Type]"));
                identifier(name)
            }
            several => {
                let names: Vec<String> = several.iter().map(|(name, _)| identifier(name)).collect();
                parameters.extend(names.iter().map(|name| format!("{name}: Type")));
                format!("&[{}]", names.join(", "))
            }
        }
    }

    /// The list of attributes, as `attrs`.
    fn built_attributes(&self, segments: &[String]) -> String {
        let attributes = || {
            self.arguments.iter().filter_map(|argument| match argument {
                Argument::Attribute(name, kind) if !is_set_later(kind) => Some((name, kind)),
                Argument::Attribute(..) | Argument::Operand(..) => None,
            })
        };
        let always: Vec<String> = attributes()
            .filter(|(_, kind)| !kind.optional && !kind.unit)
            .map(|(name, kind)| format!("(\"{name}\", <{} as AttrValue>::write(b.ctx(), {}))", kind.value, identifier(name)))
            .collect();
        let sometimes: Vec<_> = attributes().filter(|(_, kind)| kind.optional || kind.unit).collect();
        if !self.sized && sometimes.is_empty() {
            return format!("        let attrs = [{}];\n", always.join(", "));
        }
        let mut source = format!("        let mut attrs: Vec<(&str, Attr)> = vec![{}];\n", always.join(", "));
        for (name, kind) in sometimes {
            let given = identifier(name);
            source += &if kind.unit {
                format!("        if {given} {{\n            attrs.push((\"{name}\", Attr::unit(b.ctx())));\n        }}\n")
            } else {
                format!("        attrs.extend({given}.map(|given| (\"{name}\", <{} as AttrValue>::write(b.ctx(), given))));\n", kind.value)
            };
        }
        if self.sized {
            source += &format!("        attrs.push((\"operandSegmentSizes\", Attr::i32s(b.ctx(), &[{}])));\n", segments.join(", "));
        }
        source
    }
}

/// True for sizes, which are omitted if all are numbers: builders omit them, too.
const fn is_set_later(kind: &Kind) -> bool {
    kind.optional && kind.sizes.is_some()
}

/// Writes the functions that read and change an attribute.
fn attribute_accessors(name: &str, kind: &Kind) -> String {
    let mut source = String::new();
    let mut reader = |accessor: &str, doc: &str, returned: &str, read: &str| {
        source += &format!("\n    /// Attribute `{name}`{doc}.\n    pub fn {accessor}(self) -> {returned} {{\n        {read}\n    }}\n");
    };
    let (plain, optional, required) = (identifier(name), format!("self.0.optional(\"{name}\")"), format!("self.0.required(\"{name}\")"));
    let mut setters = vec![(format!("set_{name}"), kind.value.as_str(), kind.given.as_str())];
    match kind.sizes {
        // If all sizes are numbers, the attribute is omitted.
        Some((value, given)) if kind.optional => {
            reader(&plain, ": sizes, some of them expressions", &format!("Option<{value}>"), &optional);
            setters = vec![(format!("set_{name}"), value, given)];
        }
        Some((value, given)) => {
            reader(&plain, ", if all sizes are numbers", &kind.value, &required);
            reader(&format!("{name}_dims"), ", whose sizes may be expressions", value, &required);
            setters.push((format!("set_{name}_dims"), value, given));
        }
        None if kind.unit => reader(&plain, "", &kind.returned(), &format!("self.0.attr(\"{name}\").is_some()")),
        None if kind.optional => reader(&plain, "", &kind.returned(), &optional),
        None => reader(&plain, "", &kind.returned(), &required),
    }
    if kind.sizes.is_none() && (kind.unit || kind.optional) {
        return source;
    }
    for (setter, value, given) in setters {
        source += &format!(
            "\n    /// Changes attribute `{name}`.\n    pub fn {setter}(self, given: {given}) {{\n        self.0.set_attr(\"{name}\", <{value} as AttrValue>::write(self.0.ctx(), given));\n    }}\n",
        );
    }
    source
}

/// Writes an accessor of operands or results.
fn accessor(name: &str, count: Count, what: &str, range: &str) -> String {
    let upper = format!("{}{}", what[..1].to_uppercase(), &what[1..]);
    let (ty, body) = match count {
        Count::One => (
            "Value",
            if range.starts_with("self.0.segment") { format!("self.0.operand({range}.start)") } else { format!("self.0.{what}({range})") },
        ),
        Count::Optional => ("Option<Value>", format!("({range}).next().map(|index| self.0.{what}(index))")),
        Count::Variadic => ("Vec<Value>", format!("({range}).map(|index| self.0.{what}(index)).collect()")),
    };
    format!("\n    /// {upper} `{name}`.\n    pub fn {}(self) -> {ty} {{\n        {body}\n    }}\n", identifier(name))
}

/// The names and constraints of a list of arguments or results.
fn named<'a>(operation: &str, record: Record<'a>, list: &str) -> Result<Vec<(String, Record<'a>)>, Error> {
    let dag = record.dag_value(list)?;
    let mut found = Vec::new();
    for index in 0..dag.num_args() {
        let name = dag.name(index).filter(|name| !name.is_empty());
        let (Some(name), Some(TypedInit::Def(constraint))) = (name, dag.get(index)) else {
            return Err(Error::Unknown { definition: operation.to_owned(), what: format!("number {index} of its {list}") });
        };
        found.push((name.to_owned(), constraint.into()));
    }
    Ok(found)
}

fn count(constraint: Record<'_>) -> Count {
    if constraint.subclass_of("Optional") {
        Count::Optional
    } else if constraint.subclass_of("Variadic") {
        Count::Variadic
    } else {
        Count::One
    }
}

/// Writes the closed set of all operations, for matches whose exhaustiveness the compiler checks.
pub fn write_set(operations: &[Operation]) -> String {
    let variant = |operation: &Operation| operation.rust.trim_end_matches("Op").to_owned();
    let variants =
        operations.iter().map(|op| format!("    /// `{}`\n    {}({}),\n", op.name, variant(op), op.rust)).collect::<Vec<_>>().concat();
    // Compares the length of the name first: a match on strings compares with one after the other.
    let mut by_length: BTreeMap<usize, String> = BTreeMap::new();
    for op in operations {
        *by_length.entry(op.name.len()).or_default() +=
            &format!("                {}::NAME => Self::{}({}(op)),\n", op.rust, variant(op), op.rust);
    }
    let arms = by_length
        .iter()
        .map(|(length, arms)| format!("            {length} => match name {{\n{arms}                _ => return None,\n            }},\n"))
        .collect::<Vec<_>>()
        .concat();
    let documented =
        operations.iter().map(|op| format!("            {0}::NAME => {0}::DOCUMENTATION,\n", op.rust)).collect::<Vec<_>>().concat();
    format!(
        "
/// An operation of the dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamoOp {{
{variants}}}

impl DynamoOp {{
    /// Returns the operation as the dialect's operation that it is, or `None` for other dialects' operations.
    pub fn of(op: Op) -> Option<Self> {{
        op.with_name(|name| {{
            Some(match name.len() {{
{arms}            _ => return None,
            }})
        }})
    }}

    /// Returns the documentation of the operation with a name, as Markdown.
    #[must_use]
    pub fn documentation(name: &str) -> Option<&'static str> {{
        Some(match name {{
{documented}            _ => return None,
        }})
    }}
}}
"
    )
}
