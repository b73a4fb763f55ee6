//! PTX as data: the output of the parser, which the interpreter runs.
#![expect(missing_docs, reason = "the names are those of the PTX manual")]

/// The type of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    /// A predicate.
    Pred,
    /// Bits, with the size in bytes. Arithmetic on them treats them as floats of the instruction's other type.
    Bits(u8),
    /// Signed, with the size in bytes.
    Signed(u8),
    /// Unsigned, with the size in bytes.
    Unsigned(u8),
    /// Halves and pairs of halves, single and double.
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
}

impl Ty {
    /// Its size in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Pred => 1,
            Self::Bits(bytes) | Self::Signed(bytes) | Self::Unsigned(bytes) => bytes.into(),
            Self::F16 | Self::Bf16 => 2,
            Self::F16x2 | Self::Bf16x2 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns true if it is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The type with this name, without its dot.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => {
                let bytes: u8 = name.get(1..)?.parse().ok().filter(|bits| [8, 16, 32, 64].contains(bits))? / 8;
                match &name[..1] {
                    "b" => Self::Bits(bytes),
                    "s" => Self::Signed(bytes),
                    "u" => Self::Unsigned(bytes),
                    _ => return None,
                }
            }
        })
    }
}

/// The rounding of a result; the `i` forms round to integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

/// Registers that the hardware fills; the index is x, y or z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    Thread(usize),
    Threads(usize),
    Block(usize),
    Blocks(usize),
    Lane,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Register(u32),
    Number(u64),
    Special(Special),
    /// The address of the variable with this index.
    Variable(usize),
    Several(Vec<Operand>),
    /// The memory at that many bytes after the operand.
    At(Box<Operand>, i64),
    /// The parameter with this index.
    Parameter(usize),
    /// The instruction with this index.
    Label(usize),
    /// `_`: discards the written value.
    Nothing,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Neither operand is a NaN.
    Ordered,
    /// At least one operand is a NaN.
    Unordered,
}

/// Operations on two values of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    MulHigh,
    /// The result is twice as wide as the operands.
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    /// Propagates NaN.
    MinNan,
    MaxNan,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    CopySign,
}

/// Operations on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    Neg,
    Abs,
    Not,
    Sqrt,
    Reciprocal,
    ReciprocalSqrt,
    Exp2,
    Log2,
    Sin,
    Cos,
    Tanh,
    CountOnes,
    LeadingZeros,
    Reverse,
}

/// The lane from which a lane takes its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    Xor,
    Down,
    Up,
    Index,
}

/// The operation of one instruction, on values of the instruction's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Load,
    Store,
    Move,
    Binary(Binary),
    Unary(Unary),
    /// A product, whole or one of its halves, plus the third operand; with a carry in and out.
    MulAdd {
        part: Binary,
        carry_in: bool,
        carry_out: bool,
    },
    /// A sum with a carry in and out.
    AddCarry {
        carry_in: bool,
        carry_out: bool,
    },
    Fma,
    Compare {
        how: Compare,
        or_nan: bool,
    },
    Select,
    /// Converts from a type; optionally to an integer, and optionally saturating to 0 to 1.
    Convert {
        from: Ty,
        whole: bool,
        saturate: bool,
    },
    Permute,
    /// Shifts two adjacent words and keeps one of them.
    Funnel {
        left: bool,
        clamp: bool,
    },
    Extract,
    Insert,
    Branch,
    Return,
    Barrier,
    Shuffle(Shuffle),
    /// `mma.sync` of 16 by 8 results; the type is that of the left operand's elements, Bits(4) for tf32.
    Product {
        depth: usize,
    },
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The predicate that must be set, or unset if the flag is true.
    pub guard: Option<(u32, bool)>,
    pub op: Op,
    pub ty: Ty,
    pub round: Round,
    /// Subnormal numbers are flushed to zero.
    pub flush: bool,
    /// The operands, destinations first, as written.
    pub operands: Vec<Operand>,
    /// The text, for messages.
    pub text: String,
}

/// Memory that code declares.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub space: Space,
    pub align: usize,
    pub bytes: usize,
    /// Its initial contents.
    pub contents: Vec<u8>,
}

/// The threads that share a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// All threads.
    Module,
    /// The threads of a block.
    Block,
    /// One thread only.
    Thread,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    /// The number of parameters, each of eight bytes.
    pub parameters: usize,
    /// The largest block with which it may be launched.
    pub threads: Option<[usize; 3]>,
    pub registers: usize,
    pub variables: Vec<Variable>,
    pub code: Vec<Instruction>,
}

/// A module.
#[derive(Clone, Debug)]
pub struct Module {
    /// `7.1` is 71.
    pub version: u32,
    /// `sm_90` is 90.
    pub chip: u32,
    pub entries: Vec<Entry>,
}
