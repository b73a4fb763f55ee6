//! PTX as data: what the parser makes and the interpreter runs.
#![expect(missing_docs, reason = "the names are those of the PTX manual")]

/// The type that an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    /// A predicate.
    Pred,
    /// Bits, in bytes. Where arithmetic is done on them they are floats of the instruction's other type.
    Bits(u8),
    /// Signed, in bytes.
    Signed(u8),
    /// Unsigned, in bytes.
    Unsigned(u8),
    /// Halves and their pairs, single and double.
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
}

impl Ty {
    /// How many bytes it takes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Pred => 1,
            Self::Bits(bytes) | Self::Signed(bytes) | Self::Unsigned(bytes) => bytes.into(),
            Self::F16 | Self::Bf16 => 2,
            Self::F16x2 | Self::Bf16x2 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// The type of this name, without its dot.
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

/// How a result is rounded; the `i` forms give whole numbers.
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

/// What an instruction works on.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Register(u32),
    Number(u64),
    Special(Special),
    /// The address of a variable of this index.
    Variable(usize),
    Several(Vec<Operand>),
    /// What lies that number of bytes after it.
    At(Box<Operand>, i64),
    /// A parameter of this index.
    Parameter(usize),
    /// The instruction of this index.
    Label(usize),
    /// `_`: what is written is dropped.
    Nothing,
}

/// What is compared, and whether a NaN makes it true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Neither is a NaN.
    Ordered,
    /// One of them is.
    Unordered,
}

/// Operations on two values of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    MulHigh,
    /// Twice as wide as its operands.
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    /// A NaN wins.
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

/// Which lane another lane's value is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    Xor,
    Down,
    Up,
    Index,
}

/// What one instruction does, to values of the instruction's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Load,
    Store,
    Move,
    Binary(Binary),
    Unary(Unary),
    /// A product, whole or one of its halves, to which the third operand is added; with a carry in and out.
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
    /// From a type; whether to a whole number, and whether into 0 to 1.
    Convert {
        from: Ty,
        whole: bool,
        saturate: bool,
    },
    Permute,
    /// Two words side by side are shifted, and one of them is kept.
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
    /// The predicate that must be set, or must not where the flag is true.
    pub guard: Option<(u32, bool)>,
    pub op: Op,
    pub ty: Ty,
    pub round: Round,
    /// Numbers too small for full precision are zero.
    pub flush: bool,
    /// Destinations first, as written.
    pub operands: Vec<Operand>,
    /// For messages.
    pub text: String,
}

/// Memory that code declares.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub space: Space,
    pub align: usize,
    pub bytes: usize,
    /// What it holds at first.
    pub contents: Vec<u8>,
}

/// Who shares a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// All threads.
    Module,
    /// A block.
    Block,
    /// Nobody.
    Thread,
}

/// A kernel.
#[derive(Clone, Debug)]
pub struct Entry {
    pub name: String,
    /// How many parameters it has, each of eight bytes.
    pub parameters: usize,
    /// The largest block it may be launched with.
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
