//! Parses PTX as LLVM writes it, one statement after the other; unknown statements are errors.

use std::collections::HashMap;

use crate::code::{Binary, Compare, Entry, Instruction, Module, Op, Operand, Round, Shuffle, Space, Special, Ty, Unary, Variable};

/// A result, or the error in a text.
pub type Refused<T> = Result<T, String>;

/// Parses a module.
pub fn module(text: &str) -> Refused<Module> {
    let text: String = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let number = |directive: &str, prefix: &str| -> Refused<u32> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(directive)).ok_or_else(|| format!("there is no {directive}"))?;
        let digits: String = line.trim().trim_start_matches(prefix).chars().filter(char::is_ascii_digit).collect();
        digits.parse().map_err(|_| format!("{directive} is not a number"))
    };
    let mut module = Module { version: number(".version", "")?, chip: number(".target", "sm_")?, entries: Vec::new() };
    let mut globals = Vec::new();
    let mut rest = &text[..];
    while let Some(at) = rest.find(".entry") {
        let before = &rest[..at];
        globals.extend(before.split(';').filter(|statement| is_variable(statement)).map(variable).collect::<Refused<Vec<_>>>()?);
        let open = at + rest[at..].find('{').ok_or("an entry without a body")?;
        let close = closing(rest, open).ok_or("an entry without an end")?;
        module.entries.push(entry(&rest[at + ".entry".len()..open], &rest[open + 1..close], &globals)?);
        rest = &rest[close + 1..];
    }
    Ok(module)
}

fn closing(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    text[open..].char_indices().find_map(|(at, character)| {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(open + at)
    })
}

fn is_variable(statement: &str) -> bool {
    statement.contains(".b8 ") || statement.contains(".b64 ") || statement.contains(".b32 ")
}

/// `.shared .align 4 .b8 name[32]`, perhaps with `= {1, 2}`.
fn variable(statement: &str) -> Refused<Variable> {
    let (declaration, contents) = statement.split_once('=').unwrap_or((statement, ""));
    let words: Vec<_> = declaration.split_whitespace().collect();
    let refuse = || format!("not a variable: {}", statement.trim());
    let last = words.last().ok_or_else(refuse)?;
    let (name, count) = last.trim_end_matches(']').split_once('[').unwrap_or((last, "1"));
    let width = words.iter().find_map(|word| Ty::named(word.strip_prefix('.')?)).ok_or_else(refuse)?.bytes();
    let align = words.iter().position(|word| *word == ".align").and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(width);
    let space = match () {
        () if words.contains(&".shared") => Space::Block,
        () if words.contains(&".local") => Space::Thread,
        () => Space::Module,
    };
    let mut bytes = Vec::new();
    for number in contents.trim().trim_matches(['{', '}']).split(',').map(str::trim).filter(|number| !number.is_empty()) {
        let number = immediate(number).ok_or_else(refuse)?;
        bytes.extend_from_slice(&number.to_le_bytes()[..width]);
    }
    let count: usize = count.parse().map_err(|_| refuse())?;
    Ok(Variable { name: name.to_owned(), space, align, bytes: count * width, contents: bytes })
}

/// The meanings of names in an entry.
struct Names {
    registers: HashMap<String, u32>,
    parameters: HashMap<String, usize>,
    variables: HashMap<String, usize>,
    labels: HashMap<String, usize>,
}

fn entry(head: &str, body: &str, globals: &[Variable]) -> Refused<Entry> {
    let (name, rest) = head.split_once('(').ok_or("an entry without parameters")?;
    let (parameters, directives) = rest.split_once(')').ok_or("parameters without an end")?;
    let parameters: Vec<_> = parameters.split(',').filter_map(|parameter| parameter.split_whitespace().last()).collect();
    let threads = directives.split(".maxntid").nth(1).map(|list| {
        let mut sizes = list.split([',', '.', '\n']).map(str::trim).filter_map(|size| size.parse().ok());
        [sizes.next().unwrap_or(1), sizes.next().unwrap_or(1), sizes.next().unwrap_or(1)]
    });
    let mut variables = globals.to_vec();
    let mut statements: Vec<String> = Vec::new();
    let mut labels = HashMap::new();
    let mut named: Vec<String> = Vec::new();
    for statement in body.split(';') {
        // Braces around statements are scopes of register names, but names are unique anyway.
        let mut statement = inside(statement);
        while let Some((label, rest)) = statement.split_once(':').filter(|(label, _)| is_label(label)) {
            labels.insert(label.to_owned(), statements.len());
            statement = inside(rest);
        }
        // A register with a name of its own.
        let declared = statement.strip_prefix(".reg").and_then(|rest| rest.split_whitespace().last());
        named.extend(declared.filter(|name| !name.starts_with('%')).map(str::to_owned));
        match statement {
            "" => {}
            declared if declared.starts_with(".shared") || declared.starts_with(".local") => variables.push(variable(declared)?),
            directive if directive.starts_with('.') => {}
            instruction => statements.push(instruction.to_owned()),
        }
    }
    let mut names = Names {
        registers: HashMap::new(),
        parameters: parameters.iter().enumerate().map(|(index, name)| ((*name).to_owned(), index)).collect(),
        variables: variables.iter().enumerate().map(|(index, variable)| (variable.name.clone(), index)).collect(),
        labels,
    };
    for name in &named {
        names.register(name);
    }
    let code = statements.iter().map(|statement| instruction(statement, &mut names)).collect::<Refused<_>>()?;
    Ok(Entry { name: name.trim().to_owned(), parameters: parameters.len(), threads, registers: names.registers.len(), variables, code })
}

/// A statement without the braces before it.
fn inside(statement: &str) -> &str {
    statement.trim_start_matches(|c: char| c == '{' || c == '}' || c.is_whitespace()).trim_end()
}

fn is_label(text: &str) -> bool {
    text.starts_with('$') && text.chars().all(|c| c.is_alphanumeric() || c == '$' || c == '_')
}

impl Names {
    fn register(&mut self, name: &str) -> u32 {
        let next = self.registers.len() as u32;
        *self.registers.entry(name.to_owned()).or_insert(next)
    }

    fn operand(&mut self, text: &str) -> Refused<Operand> {
        let text = text.trim();
        if let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            return Ok(Operand::Several(split(inner).into_iter().map(|part| self.operand(part)).collect::<Refused<_>>()?));
        }
        if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            let (base, offset) = inner.split_once('+').unwrap_or((inner, "0"));
            let offset = offset.trim().parse().map_err(|_| format!("not a distance: {offset}"))?;
            return Ok(Operand::At(Box::new(self.operand(base)?), offset));
        }
        if text == "_" {
            return Ok(Operand::Nothing);
        }
        if let Some(special) = special(text) {
            return Ok(Operand::Special(special));
        }
        // `%r1|%p1`: the second tells if there was such a lane, which no code here uses.
        if let Some((first, second)) = text.split_once('|') {
            self.register(second);
            return self.operand(first);
        }
        if text.starts_with('%') || self.registers.contains_key(text) {
            return Ok(Operand::Register(self.register(text)));
        }
        if let Some(number) = immediate(text) {
            return Ok(Operand::Number(number));
        }
        let found = [
            self.parameters.get(text).map(|&index| Operand::Parameter(index)),
            self.variables.get(text).map(|&index| Operand::Variable(index)),
            self.labels.get(text).map(|&index| Operand::Label(index)),
        ];
        found.into_iter().flatten().next().ok_or_else(|| format!("nothing is called {text}"))
    }
}

fn special(text: &str) -> Option<Special> {
    if text == "%laneid" {
        return Some(Special::Lane);
    }
    let (name, axis) = text.split_once('.')?;
    let axis = ["x", "y", "z"].iter().position(|name| *name == axis)?;
    Some(match name {
        "%tid" => Special::Thread(axis),
        "%ntid" => Special::Threads(axis),
        "%ctaid" => Special::Block(axis),
        "%nctaid" => Special::Blocks(axis),
        _ => return None,
    })
}

fn immediate(text: &str) -> Option<u64> {
    let text = text.strip_suffix('U').unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0f") {
        return u32::from_str_radix(digits, 16).ok().map(u64::from);
    }
    if let Some(digits) = text.strip_prefix("0d").or_else(|| text.strip_prefix("0x")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    text.parse::<i64>().map(|number| number as u64).or_else(|_| text.parse()).ok()
}

/// Splits at commas outside of braces and brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn instruction(statement: &str, names: &mut Names) -> Refused<Instruction> {
    let mut text = statement.trim();
    let mut guard = None;
    if let Some(rest) = text.strip_prefix('@') {
        let (predicate, rest) = rest.split_once(char::is_whitespace).ok_or_else(|| format!("not an instruction: {statement}"))?;
        let negated = predicate.starts_with('!');
        guard = Some((names.register(predicate.trim_start_matches('!')), negated));
        text = rest.trim();
    }
    let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let operands = split(operands).into_iter().map(|part| names.operand(part)).collect::<Refused<Vec<_>>>()?;
    let parts: Vec<&str> = name.split('.').collect();
    let known = decode(&parts).ok_or_else(|| format!("the instruction {name} is not known here"))?;
    let has = |part: &str| parts.contains(&part);
    let round = match () {
        () if has("rz") || has("rzi") => Round::Zero,
        () if has("rm") || has("rmi") => Round::Down,
        () if has("rp") || has("rpi") => Round::Up,
        () => Round::Nearest,
    };
    let (op, ty) = known;
    if round != Round::Nearest && ty == Ty::F64 && !matches!(op, Op::Convert { .. }) {
        return Err(format!("the rounding of {name} is not known here"));
    }
    Ok(Instruction {
        guard,
        op,
        ty,
        round,
        flush: has("ftz") && ty == Ty::F32,
        operands,
        text: statement.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// Decodes an instruction's name, except its rounding.
fn decode(parts: &[&str]) -> Option<(Op, Ty)> {
    let has = |part: &str| parts.contains(&part);
    let types: Vec<Ty> = parts[1..].iter().filter_map(|part| Ty::named(part)).collect();
    let ty = types.last().copied();
    let binary = |op| Some((Op::Binary(op), ty?));
    let unary = |op| Some((Op::Unary(op), ty?));
    match parts[0] {
        "ld" => Some((Op::Load, ty?)),
        "st" => Some((Op::Store, ty?)),
        "mov" | "cvta" => Some((Op::Move, ty?)),
        "add" if !has("cc") => binary(Binary::Add),
        "add" | "addc" => Some((Op::AddCarry { carry_in: parts[0] == "addc", carry_out: has("cc") }, ty?)),
        "sub" if !has("cc") => binary(Binary::Sub),
        "mul" if has("wide") => binary(Binary::MulWide),
        "mul" if has("hi") => binary(Binary::MulHigh),
        "mul" => binary(Binary::Mul),
        "mad" | "madc" => {
            let part = match () {
                () if has("wide") => Binary::MulWide,
                () if has("hi") => Binary::MulHigh,
                () => Binary::Mul,
            };
            Some((Op::MulAdd { part, carry_in: parts[0] == "madc", carry_out: has("cc") }, ty?))
        }
        "fma" if !has("relu") => Some((Op::Fma, ty?)),
        "div" => binary(Binary::Div),
        "rem" => binary(Binary::Rem),
        "min" if has("NaN") => binary(Binary::MinNan),
        "max" if has("NaN") => binary(Binary::MaxNan),
        "min" => binary(Binary::Min),
        "max" => binary(Binary::Max),
        "and" => binary(Binary::And),
        "or" => binary(Binary::Or),
        "xor" => binary(Binary::Xor),
        "shl" => binary(Binary::ShiftLeft),
        "shr" => binary(Binary::ShiftRight),
        "copysign" => binary(Binary::CopySign),
        "neg" => unary(Unary::Neg),
        "abs" => unary(Unary::Abs),
        "not" => unary(Unary::Not),
        "sqrt" => unary(Unary::Sqrt),
        "rcp" => unary(Unary::Reciprocal),
        "rsqrt" => unary(Unary::ReciprocalSqrt),
        "ex2" => unary(Unary::Exp2),
        "lg2" => unary(Unary::Log2),
        "sin" => unary(Unary::Sin),
        "cos" => unary(Unary::Cos),
        "tanh" => unary(Unary::Tanh),
        "popc" => unary(Unary::CountOnes),
        "clz" => unary(Unary::LeadingZeros),
        "brev" => unary(Unary::Reverse),
        "setp" if types.len() == 1 => compare(parts.get(1)?).map(|(how, or_nan)| (Op::Compare { how, or_nan }, types[0])),
        "selp" => Some((Op::Select, ty?)),
        "cvt" => {
            let [to, from] = types[..] else { return None };
            let whole = ["rni", "rzi", "rmi", "rpi"].iter().any(|part| has(part));
            Some((Op::Convert { from, whole, saturate: has("sat") }, to))
        }
        "prmt" if parts.len() == 2 => Some((Op::Permute, ty?)),
        "shf" => Some((Op::Funnel { left: has("l"), clamp: has("clamp") }, ty?)),
        "bfe" => Some((Op::Extract, ty?)),
        "bfi" => Some((Op::Insert, ty?)),
        "bra" => Some((Op::Branch, Ty::Pred)),
        "ret" | "exit" => Some((Op::Return, Ty::Pred)),
        "bar" | "barrier" if has("sync") => Some((Op::Barrier, Ty::Pred)),
        "shfl" => {
            let how = match *parts.get(2)? {
                "bfly" => Shuffle::Xor,
                "down" => Shuffle::Down,
                "up" => Shuffle::Up,
                "idx" => Shuffle::Index,
                _ => return None,
            };
            Some((Op::Shuffle(how), ty?))
        }
        "mma" => {
            let wanted = ["mma", "sync", "aligned"];
            let (shape, kinds) = (parts.get(3)?, parts.get(6..)?);
            let (depth, element) = match (*shape, kinds) {
                ("m16n8k16", ["f32", "f16", "f16", "f32"]) => (16, Ty::F16),
                ("m16n8k16", ["f32", "bf16", "bf16", "f32"]) => (16, Ty::Bf16),
                ("m16n8k8", ["f32", "tf32", "tf32", "f32"]) => (8, Ty::Bits(4)),
                _ => return None,
            };
            (parts[..3] == wanted && parts[4..6] == ["row", "col"]).then_some((Op::Product { depth }, element))
        }
        // Converting to tf32 rounds to ten bits, ties away from zero.
        _ => None,
    }
}

/// The comparison, and true if a NaN makes it true.
fn compare(name: &str) -> Option<(Compare, bool)> {
    Some(match name {
        "eq" => (Compare::Eq, false),
        "ne" => (Compare::Ne, false),
        "lt" | "lo" => (Compare::Lt, false),
        "le" | "ls" => (Compare::Le, false),
        "gt" | "hi" => (Compare::Gt, false),
        "ge" | "hs" => (Compare::Ge, false),
        "equ" => (Compare::Eq, true),
        "neu" => (Compare::Ne, true),
        "ltu" => (Compare::Lt, true),
        "leu" => (Compare::Le, true),
        "gtu" => (Compare::Gt, true),
        "geu" => (Compare::Ge, true),
        "num" => (Compare::Ordered, false),
        "nan" => (Compare::Unordered, false),
        _ => return None,
    })
}
