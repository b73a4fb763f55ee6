//! Constants as Python writes them: `repr`, and text that compiles to the same constant.

use std::fmt::Write;

use crate::Const;

/// Returns the text of Python's `repr`, but prints code objects without their address.
pub fn repr(value: &Const) -> String {
    match value {
        Const::None => "None".to_owned(),
        Const::Ellipsis => "Ellipsis".to_owned(),
        Const::Bool(true) => "True".to_owned(),
        Const::Bool(false) => "False".to_owned(),
        Const::Int(digits) => digits.clone(),
        Const::Float(value) => float(*value),
        Const::Complex(real, imaginary) => {
            let imaginary_part = float(*imaginary);
            let imaginary_part = imaginary_part.strip_suffix(".0").unwrap_or(&imaginary_part).to_owned() + "j";
            if *real == 0.0 && real.is_sign_positive() {
                return imaginary_part;
            }
            let real_part = float(*real);
            let plus = if imaginary_part.starts_with('-') { "" } else { "+" };
            format!("({}{plus}{imaginary_part})", real_part.strip_suffix(".0").unwrap_or(&real_part))
        }
        Const::Str(text) => quoted(text.chars().map(u32::from)),
        Const::WideStr(points) => quoted(points.iter().copied()),
        Const::Bytes(bytes) => {
            let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' };
            let mut out = format!("b{quote}");
            for &byte in bytes {
                escape(&mut out, u32::from(byte), quote, true);
            }
            out.push(quote);
            out
        }
        Const::Tuple(items) if items.len() == 1 => format!("({},)", repr(&items[0])),
        Const::Tuple(items) => format!("({})", list(items)),
        Const::FrozenSet(items) if items.is_empty() => "frozenset()".to_owned(),
        Const::FrozenSet(items) => format!("frozenset({{{}}})", list(items)),
        Const::Slice(parts) => format!("slice({})", list(&parts[..])),
        Const::Code(code) => format!("<code object {}, file \"{}\", line {}>", code.name, code.filename, code.first_line),
        Const::Other(text) => text.clone(),
    }
}

fn list(items: &[Const]) -> String {
    items.iter().map(repr).collect::<Vec<_>>().join(", ")
}

/// Returns a string literal, in single quotes unless only those occur inside.
pub fn quoted(points: impl Iterator<Item = u32> + Clone) -> String {
    let has = |quote: char| points.clone().any(|point| point == u32::from(quote));
    let quote = if has('\'') && !has('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for point in points {
        escape(&mut out, point, quote, false);
    }
    out.push(quote);
    out
}

/// Writes one code point, or byte, within a literal.
pub fn escape(out: &mut String, point: u32, quote: char, bytes: bool) {
    let character = char::from_u32(point);
    match character {
        Some('\n') => out.push_str("\\n"),
        Some('\r') => out.push_str("\\r"),
        Some('\t') => out.push_str("\\t"),
        Some('\\') => out.push_str("\\\\"),
        Some(character) if character == quote => {
            out.push('\\');
            out.push(quote);
        }
        Some(character @ ' '..='~') => out.push(character),
        _ if bytes || point < 0x100 && !character.is_some_and(printable) => {
            let _ = write!(out, "\\x{point:02x}");
        }
        Some(character) if printable(character) => out.push(character),
        _ if point < 0x1_0000 => {
            let _ = write!(out, "\\u{point:04x}");
        }
        _ => {
            let _ = write!(out, "\\U{point:08x}");
        }
    }
}

/// Returns true if a character is shown unescaped. Rust's tables are close to Python's; where they differ, the text still means the same.
fn printable(character: char) -> bool {
    character.is_alphanumeric() || (!character.is_whitespace() && character.escape_debug().count() == 1)
}

/// Returns the shortest text that reads as this float: Rust finds the digits; exponents appear where Python puts them.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}
