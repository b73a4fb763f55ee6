//! Reads the dumps of `scripts/bytecode_dump.py`.
#![allow(dead_code, reason = "each test uses a part")]

use dynamlir_bytecode::{CodeObject, Const, Position, Version};
use serde_json::Value;

/// The interpreter's own facts about a code object.
#[derive(Debug, Default)]
pub struct Facts {
    pub positions: Vec<Position>,
    pub slots: Vec<String>,
    /// The text of `dis`, without nested code objects; only 3.11 and 3.12 print it in our format.
    pub dis: Option<String>,
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().expect("a number")).expect("32 bits")
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

fn bytes(value: &Value) -> Vec<u8> {
    let digits = value.as_str().expect("hexadecimal digits").as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn float(value: &Value) -> f64 {
    f64::from_be_bytes(bytes(value).try_into().expect("64 bits"))
}

/// Reads a constant of a dump.
pub fn constant(version: Version, value: &Value) -> Const {
    let items = |value: &Value| array(value).iter().map(|item| constant(version, item)).collect();
    match value {
        Value::Null => Const::None,
        Value::Bool(value) => Const::Bool(*value),
        Value::String(value) => Const::Str(value.clone()),
        Value::Object(object) => {
            let (kind, value) = object.iter().next().expect("one key");
            match kind.as_str() {
                "int" => Const::Int(decimal(value.as_str().expect("digits"))),
                "float" => Const::Float(float(value)),
                "complex" => Const::Complex(float(&value[0]), float(&value[1])),
                "points" => Const::WideStr(array(value).iter().map(number).collect()),
                "bytes" => Const::Bytes(bytes(value)),
                "tuple" => Const::Tuple(items(value)),
                "frozenset" => Const::FrozenSet(items(value)),
                "slice" => {
                    let parts: Vec<Const> = items(value);
                    Const::Slice(Box::new(parts.try_into().expect("three parts")))
                }
                "code" => Const::Code(Box::new(code(version, value))),
                "ellipsis" => Const::Ellipsis,
                _ => panic!("a constant of kind {kind}"),
            }
        }
        _ => panic!("no constant: {value}"),
    }
}

/// Returns `-0x1f` in decimal if it fits 128 bits. Longer numbers stay as they are, since `repr` and source may hold either.
fn decimal(hexadecimal: &str) -> String {
    let digits = hexadecimal.trim_start_matches('-').trim_start_matches("0x");
    let sign = if hexadecimal.starts_with('-') { "-" } else { "" };
    u128::from_str_radix(digits, 16).map_or(hexadecimal.to_owned(), |value| format!("{sign}{value}"))
}

/// Reads the code object of a dump.
pub fn code(version: Version, dump: &Value) -> CodeObject {
    let texts = |name: &str| array(&dump[name]).iter().map(text).collect();
    CodeObject {
        version,
        name: text(&dump["name"]),
        qualname: text(&dump["qualname"]),
        filename: text(&dump["filename"]),
        first_line: number(&dump["firstlineno"]),
        flags: number(&dump["flags"]),
        arg_count: number(&dump["argcount"]),
        positional_only: number(&dump["posonlyargcount"]),
        keyword_only: number(&dump["kwonlyargcount"]),
        stack_size: number(&dump["stacksize"]),
        bytecode: bytes(&dump["code"]),
        exception_table: bytes(&dump["exceptiontable"]),
        line_table: bytes(&dump["linetable"]),
        consts: array(&dump["consts"]).iter().map(|value| constant(version, value)).collect(),
        names: texts("names"),
        varnames: texts("varnames"),
        cellvars: texts("cellvars"),
        freevars: texts("freevars"),
    }
}

/// Reads the facts of a dump made with `--facts`.
pub fn facts(dump: &Value) -> Facts {
    let facts = &dump["facts"];
    let position = |value: &Value| {
        let at = |index: usize| value[index].as_u64().map(|number| number as u32);
        Position { line: at(0), end_line: at(1), column: at(2), end_column: at(3) }
    };
    Facts {
        positions: array(&facts["positions"]).iter().map(position).collect(),
        slots: array(&facts["slots"]).iter().map(text).collect(),
        dis: facts["dis"].as_str().map(str::to_owned),
    }
}

/// Visits a code object's dump and those of its nested code objects.
pub fn every<'a>(dump: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
    fn nested<'a>(value: &'a Value, visit: &mut dyn FnMut(&'a Value)) {
        match value {
            Value::Object(object) => {
                object.get("code").into_iter().for_each(|code| every(code, visit));
                object.get("tuple").into_iter().for_each(|items| nested(items, visit));
            }
            Value::Array(items) => items.iter().for_each(|item| nested(item, visit)),
            _ => {}
        }
    }
    visit(dump);
    nested(&dump["consts"], visit);
}
