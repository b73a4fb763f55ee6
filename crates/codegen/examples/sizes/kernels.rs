//! The kernels that are timed, at stage 04, with numbers or symbols as sizes.

use std::fmt::Write as _;

/// A kernel over rows and columns, as the planner would write it. In its body a value has one of the types `!F` (rows × columns), `!R` (one
/// per row), `!C` (one per column), `!S` (a single number), all of `f32`; a leading `I`, `B` or `D` makes it `i64`, `i1` or `f64`.
pub struct Kernel {
    pub name: &'static str,
    reduced: &'static [i64],
    /// The operands that are read: name and layout. In the body each has that name, converted to `f32`.
    reads: &'static [(&'static str, Place)],
    writes: Place,
    /// The primitives; the last value is `%y`.
    body: &'static str,
}

/// The layout of an operand in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Row-major.
    Full,
    /// Row-major, with a gap of one row's length between two rows.
    Apart,
    /// Column-major.
    Transposed,
    /// One element per row.
    Rows,
    /// One element per column.
    Columns,
    /// One number.
    Single,
    /// An index into a table per row, broadcast over the columns.
    Indices,
    /// A table of [`TABLE`] rows.
    Table,
}

/// The number of rows of a table that is gathered from.
pub const TABLE: i64 = 512;

/// The numbers of rows and columns, each a number or a symbol with its hint.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub numbers: [i64; 2],
    pub open: [bool; 2],
    pub hints: [i64; 2],
}

impl Sizes {
    fn text(&self, dim: usize) -> String {
        if self.open[dim] { format!("s{dim}") } else { self.numbers[dim].to_string() }
    }
    /// A size in the form that `dynamo.full` takes.
    fn size(&self, dim: usize) -> String {
        if self.open[dim] { format!("#dynamo.expr<s{dim}>") } else { format!("{} : i64", self.numbers[dim]) }
    }
    /// A size times a number.
    fn times(&self, dim: usize, factor: i64) -> String {
        if self.open[dim] { format!("s{dim}*{factor}") } else { (self.numbers[dim] * factor).to_string() }
    }
}

/// Sizes as an attribute.
fn list(dims: &[String]) -> String {
    let (list, colon) = (dims.join(", "), if dims.is_empty() { "" } else { ": " });
    if list.contains('s') { format!("#dynamo.sizes<{list}>") } else { format!("array<i64{colon}{list}>") }
}

/// Sizes as the shape of a type.
fn shape_of(dims: &[String], element: &str) -> String {
    dims.iter().map(|dim| if dim.starts_with('s') { "?" } else { dim }).chain([element]).collect::<Vec<_>>().join("x")
}

/// A tensor type of these sizes.
fn tensor_of(dims: &[String], element: &str) -> String {
    let open = dims.iter().any(|dim| dim.starts_with('s'));
    let said = if open { format!(", {}", list(dims)) } else { String::new() };
    format!("tensor<{}{said}>", shape_of(dims, element))
}

impl Place {
    fn dims(self, sizes: &Sizes) -> Vec<String> {
        let (rows, columns) = (sizes.text(0), sizes.text(1));
        match self {
            Self::Full | Self::Apart | Self::Transposed | Self::Indices => vec![rows, columns],
            Self::Rows => vec![rows],
            Self::Columns => vec![columns],
            Self::Single => Vec::new(),
            Self::Table => vec![TABLE.to_string(), columns],
        }
    }
    fn strides(self, sizes: &Sizes) -> Option<Vec<String>> {
        match self {
            Self::Apart => Some(vec![sizes.times(1, 2), "1".into()]),
            Self::Transposed => Some(vec!["1".into(), sizes.text(0)]),
            Self::Indices => Some(vec!["1".into(), "0".into()]),
            _ => None,
        }
    }
    pub fn element(self, element: &str) -> &str {
        if self == Self::Indices { "i64" } else { element }
    }
    /// The number of elements of the underlying memory.
    pub fn elements(self, [rows, columns]: [i64; 2]) -> i64 {
        match self {
            Self::Full | Self::Transposed => rows * columns,
            Self::Apart => 2 * rows * columns,
            Self::Rows | Self::Indices => rows,
            Self::Columns => columns,
            Self::Single => 1,
            Self::Table => TABLE * columns,
        }
    }
    fn memref(self, sizes: &Sizes, element: &str) -> String {
        let shape = shape_of(&self.dims(sizes), self.element(element));
        let Some(strides) = self.strides(sizes) else { return format!("memref<{shape}>") };
        let strides: Vec<_> = strides.iter().map(|stride| if stride.starts_with('s') { "?" } else { stride }).collect();
        format!("memref<{shape}, strided<[{}]>>", strides.join(", "))
    }
    /// The argument of a kernel.
    fn argument(self, name: &str, sizes: &Sizes, element: &str) -> String {
        let strides = self.strides(sizes).filter(|strides| strides.iter().any(|stride| stride.starts_with('s')));
        let strides = strides.map_or_else(String::new, |strides| format!("dynamo.strides = {}, ", list(&strides)));
        format!("%{name}_m: {} {{{strides}llvm.noalias}}", self.memref(sizes, element))
    }
}

impl Kernel {
    /// Returns true if it reads what it writes, as writes by index do. These are `f32` only: nothing is converted on the way.
    pub fn adds(&self) -> bool {
        self.body.contains("%out")
    }

    /// The layouts of the operands, in the order of arguments.
    pub fn places(&self) -> Vec<Place> {
        self.reads.iter().map(|&(_, place)| place).chain([self.writes]).collect()
    }

    /// The kernel for these sizes and an element type in memory.
    pub fn text(&self, sizes: &Sizes, element: &str) -> String {
        let args: Vec<_> = self.reads.iter().map(|(name, place)| place.argument(name, sizes, element)).collect();
        let args = [args, vec![self.writes.argument("out", sizes, element), "%rows: index".into(), "%columns: index".into()]].concat();
        let declare =
            |dim: usize| format!("#dynamo.symbol<s{dim}, argument = {}, hint = {}>", self.reads.len() + 1 + dim, sizes.hints[dim]);
        let symbols = (0..2).filter(|&dim| sizes.open[dim]).map(declare).collect::<Vec<_>>().join(", ");
        let symbols = if symbols.is_empty() { symbols } else { format!(", dynamo.symbols = [{symbols}]") };
        let domain = list(&Place::Full.dims(sizes));
        let reduced: Vec<_> = self.reduced.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "module @kernels {{\nfunc.func @k({}) attributes {{dynamo.kernel, dynamo.domain = {domain}, \
             dynamo.reduced_dims = {}{symbols}}} {{\n",
            args.join(", "),
            list(&reduced),
        );
        for (name, place) in self.reads {
            let (dims, stored) = (place.dims(sizes), place.element(element));
            let (memory, tensor) = (place.memref(sizes, element), tensor_of(&dims, stored));
            let is_converted = stored == "bf16" && *place != Place::Table;
            let loaded = if is_converted { format!("{name}_b") } else { (*name).to_owned() };
            let _ = writeln!(text, "  %{loaded} = bufferization.to_tensor %{name}_m restrict : {memory} to {tensor}");
            if is_converted {
                let _ = writeln!(text, "  %{name} = dynamo.convert %{loaded} : {tensor} -> {}", tensor_of(&dims, "f32"));
            }
        }
        if self.adds() {
            let (memory, tensor) = (self.writes.memref(sizes, element), tensor_of(&self.writes.dims(sizes), element));
            let _ = writeln!(text, "  %out = bufferization.to_tensor %out_m restrict : {memory} to {tensor}");
        }
        text.push_str(&self.typed(sizes, element));
        let dims = self.writes.dims(sizes);
        let (memory, tensor) = (self.writes.memref(sizes, element), tensor_of(&dims, element));
        let stored = if element == "bf16" {
            let _ = writeln!(text, "  %y_b = dynamo.convert %y : {} -> {tensor}", tensor_of(&dims, "f32"));
            "y_b"
        } else {
            "y"
        };
        let _ =
            writeln!(text, "  bufferization.materialize_in_destination %{stored} in restrict writable %out_m : ({tensor}, {memory}) -> ()");
        text.push_str("  return\n}\n}\n");
        text
    }

    /// The body with its types written out.
    fn typed(&self, sizes: &Sizes, element: &str) -> String {
        let mut text = self.body.to_owned();
        let places = [("F", Place::Full), ("R", Place::Rows), ("C", Place::Columns), ("S", Place::Single), ("T", Place::Table)];
        for (letter, place) in places {
            for (prefix, element) in [("", "f32"), ("I", "i64"), ("B", "i1"), ("D", "f64"), ("E", element)] {
                text = text.replace(&format!("!{prefix}{letter}"), &tensor_of(&place.dims(sizes), element));
            }
        }
        text.replace("@ROWS", &sizes.size(0))
            .replace("@COLUMNS", &sizes.size(1))
            .lines()
            .fold(String::new(), |all, line| all + "  " + line.trim() + "\n")
    }
}

use Place::{Apart, Columns, Full, Indices, Rows, Single, Table, Transposed};

/// All kernels.
pub const KERNELS: &[Kernel] = &[
    Kernel {
        name: "scaled sum",
        reduced: &[],
        reads: &[("x", Full), ("z", Full), ("w", Rows)],
        writes: Full,
        body: "%ws = dynamo.broadcast %w dims [0] : !R -> !F
            %sum = dynamo.add %x, %z : !F
            %y = dynamo.mul %sum, %ws : !F",
    },
    Kernel {
        name: "bias, gelu",
        reduced: &[],
        reads: &[("x", Full), ("b", Columns)],
        writes: Full,
        body: "%bs = dynamo.broadcast %b dims [1] : !C -> !F
            %sum = dynamo.add %x, %bs : !F
            %r = dynamo.full 0.70710678 : f32 -> !F
            %h = dynamo.full 0.5 : f32 -> !F
            %o = dynamo.full 1.0 : f32 -> !F
            %a = dynamo.mul %sum, %r : !F
            %erf = dynamo.erf %a : !F
            %p = dynamo.add %erf, %o : !F
            %half = dynamo.mul %sum, %h : !F
            %y = dynamo.mul %half, %p : !F",
    },
    Kernel { name: "transpose", reduced: &[], reads: &[("x", Transposed)], writes: Full, body: "%y = dynamo.neg %x : !F" },
    Kernel { name: "slice", reduced: &[], reads: &[("x", Apart)], writes: Full, body: "%y = dynamo.neg %x : !F" },
    Kernel { name: "part of concatenation", reduced: &[], reads: &[("x", Full)], writes: Apart, body: "%y = dynamo.neg %x : !F" },
    Kernel {
        name: "rows of table",
        reduced: &[],
        reads: &[("i", Indices), ("t", Table)],
        writes: Full,
        body: "%column = dynamo.iota 1 : !IF
            %g = dynamo.gather %t[%i, %column] : !ET, !IF, !IF -> !EF
            %y = dynamo.convert %g : !EF -> !F",
    },
    Kernel {
        name: "sums by index",
        reduced: &[0],
        reads: &[("i", Indices), ("x", Full)],
        writes: Table,
        body: "%y = dynamo.scatter %x into %out[%i] dims [-1, 1] by sum : !T, !IF, !F -> !T",
    },
    Kernel {
        name: "softmax",
        reduced: &[1],
        reads: &[("x", Full)],
        writes: Full,
        body: "%max = dynamo.reduce max %x dims [1] : !F -> !R
            %most = dynamo.broadcast %max dims [0] : !R -> !F
            %less = dynamo.sub %x, %most : !F
            %exp = dynamo.exp %less : !F
            %sum = dynamo.reduce sum %exp dims [1] : !F -> !R
            %sums = dynamo.broadcast %sum dims [0] : !R -> !F
            %y = dynamo.div %exp, %sums : !F",
    },
    Kernel {
        name: "softmax by f64",
        reduced: &[1],
        reads: &[("x", Full)],
        writes: Full,
        body: "%max = dynamo.reduce max %x dims [1] : !F -> !R
            %most = dynamo.broadcast %max dims [0] : !R -> !F
            %less = dynamo.sub %x, %most : !F
            %exp = dynamo.exp %less : !F
            %wide = dynamo.convert %exp : !F -> !DF
            %sum = dynamo.reduce sum %wide dims [1] : !DF -> !DR
            %narrow = dynamo.convert %sum : !DR -> !R
            %sums = dynamo.broadcast %narrow dims [0] : !R -> !F
            %y = dynamo.div %exp, %sums : !F",
    },
    Kernel {
        name: "causal softmax",
        reduced: &[1],
        reads: &[("x", Full)],
        writes: Full,
        body: "%row = dynamo.iota 0 : !IF
            %column = dynamo.iota 1 : !IF
            %seen = dynamo.compare le %column, %row : !IF -> !BF
            %never = dynamo.full 0xFF800000 : f32 -> !F
            %masked = dynamo.select %seen, %x, %never : !BF, !F
            %max = dynamo.reduce max %masked dims [1] : !F -> !R
            %most = dynamo.broadcast %max dims [0] : !R -> !F
            %less = dynamo.sub %masked, %most : !F
            %exp = dynamo.exp %less : !F
            %sum = dynamo.reduce sum %exp dims [1] : !F -> !R
            %sums = dynamo.broadcast %sum dims [0] : !R -> !F
            %y = dynamo.div %exp, %sums : !F",
    },
    Kernel {
        name: "layer norm",
        reduced: &[1],
        reads: &[("x", Full), ("w", Columns), ("b", Columns)],
        writes: Full,
        body: "%size = dynamo.full @COLUMNS -> !IR
            %n = dynamo.convert %size : !IR -> !R
            %sum = dynamo.reduce sum %x dims [1] : !F -> !R
            %mean = dynamo.div %sum, %n : !R
            %means = dynamo.broadcast %mean dims [0] : !R -> !F
            %d = dynamo.sub %x, %means : !F
            %dd = dynamo.mul %d, %d : !F
            %squares = dynamo.reduce sum %dd dims [1] : !F -> !R
            %variance = dynamo.div %squares, %n : !R
            %eps = dynamo.full 1.0e-5 : f32 -> !R
            %more = dynamo.add %variance, %eps : !R
            %inverse = dynamo.rsqrt %more : !R
            %inverses = dynamo.broadcast %inverse dims [0] : !R -> !F
            %normal = dynamo.mul %d, %inverses : !F
            %ws = dynamo.broadcast %w dims [1] : !C -> !F
            %scaled = dynamo.mul %normal, %ws : !F
            %bs = dynamo.broadcast %b dims [1] : !C -> !F
            %y = dynamo.add %scaled, %bs : !F",
    },
    Kernel {
        name: "RMS norm",
        reduced: &[1],
        reads: &[("x", Full), ("w", Columns)],
        writes: Full,
        body: "%size = dynamo.full @COLUMNS -> !IR
            %n = dynamo.convert %size : !IR -> !R
            %xx = dynamo.mul %x, %x : !F
            %squares = dynamo.reduce sum %xx dims [1] : !F -> !R
            %mean = dynamo.div %squares, %n : !R
            %eps = dynamo.full 1.0e-6 : f32 -> !R
            %more = dynamo.add %mean, %eps : !R
            %inverse = dynamo.rsqrt %more : !R
            %inverses = dynamo.broadcast %inverse dims [0] : !R -> !F
            %normal = dynamo.mul %x, %inverses : !F
            %ws = dynamo.broadcast %w dims [1] : !C -> !F
            %y = dynamo.mul %normal, %ws : !F",
    },
    Kernel {
        name: "sums of rows",
        reduced: &[1],
        reads: &[("x", Full)],
        writes: Rows,
        body: "%y = dynamo.reduce sum %x dims [1] : !F -> !R",
    },
    Kernel {
        name: "sums of columns",
        reduced: &[0],
        reads: &[("x", Full)],
        writes: Columns,
        body: "%y = dynamo.reduce sum %x dims [0] : !F -> !C",
    },
    Kernel {
        name: "batch norm",
        reduced: &[0],
        reads: &[("x", Full), ("w", Columns)],
        writes: Full,
        body: "%size = dynamo.full @ROWS -> !IC
            %n = dynamo.convert %size : !IC -> !C
            %sum = dynamo.reduce sum %x dims [0] : !F -> !C
            %mean = dynamo.div %sum, %n : !C
            %means = dynamo.broadcast %mean dims [1] : !C -> !F
            %d = dynamo.sub %x, %means : !F
            %dd = dynamo.mul %d, %d : !F
            %squares = dynamo.reduce sum %dd dims [0] : !F -> !C
            %variance = dynamo.div %squares, %n : !C
            %eps = dynamo.full 1.0e-5 : f32 -> !C
            %more = dynamo.add %variance, %eps : !C
            %inverse = dynamo.rsqrt %more : !C
            %scale = dynamo.mul %inverse, %w : !C
            %scales = dynamo.broadcast %scale dims [1] : !C -> !F
            %y = dynamo.mul %d, %scales : !F",
    },
    Kernel {
        name: "softmax of columns",
        reduced: &[0],
        reads: &[("x", Full)],
        writes: Full,
        body: "%max = dynamo.reduce max %x dims [0] : !F -> !C
            %most = dynamo.broadcast %max dims [1] : !C -> !F
            %less = dynamo.sub %x, %most : !F
            %exp = dynamo.exp %less : !F
            %sum = dynamo.reduce sum %exp dims [0] : !F -> !C
            %sums = dynamo.broadcast %sum dims [1] : !C -> !F
            %y = dynamo.div %exp, %sums : !F",
    },
    Kernel {
        name: "sum of all",
        reduced: &[0, 1],
        reads: &[("x", Full)],
        writes: Single,
        body: "%y = dynamo.reduce sum %x dims [0, 1] : !F -> !S",
    },
    Kernel { name: "running sums", reduced: &[1], reads: &[("x", Full)], writes: Full, body: "%y = dynamo.scan sum %x dim 1 : !F" },
];
