//! Convolutions: positions of the result are in the lanes, the windows' weights in the rows.
//!
//! ```text
//! for each image, channel:                  copy it into zeros              (where windows need it)
//! for each group, chunk of panels:          for each block of channels:     (shared out among threads)
//!                                               copy windows to panels
//!                                               for each tile, panel: add products
//!                                           for each panel: epilogue
//! ```
//! The matrix of all windows is never materialized as a whole: only the panels of one piece of work exist, and they stay in the cache.

use dynamlir_dialect::{
    ir::{Block as IrBlock, Builder, Op, Type, Value},
    ops,
};

use super::{
    choose::ceiling,
    code::{Code, fill},
    cut::choose,
    epilogue::{self, Block, Sums},
    has_windows,
    kernel::{Kernel, Role, loaded},
    lower::{CHEAPER, erase},
    tile::{self, Source, Tile},
    windows::{WindowSchedule, Windows},
};

/// Returns the convolution of a kernel at stage 05.
pub(super) fn find(function: Op) -> Option<Op> {
    function.body()?.ops().into_iter().find(|&op| has_windows(op))
}

/// Lowers the convolution to loops.
///
/// # Errors
/// Returns the reason if that is impossible.
pub(super) fn lower(function: Op, op: Op, parallel_work: i64) -> Result<(), &'static str> {
    let memory = |operand: Value| loaded(operand).ok_or("the operands of a convolution must be in memory");
    let input = memory(op.operand(0))?;
    let weight = op.operands().get(1).map(|&operand| memory(operand)).transpose()?;
    let strides = input.ty().strided().ok_or("images must have strides")?.0;
    let w = Windows::of(op, &strides).ok_or("not a convolution over two dimensions")?;
    let single = Type::f32(op.ctx());
    let in_order = |memory: Value| memory.ty().element() == single && lies_in_order(memory.ty());
    if input.ty().element() != single || !weight.is_none_or(in_order) {
        return Err("images and weights must be f32, and weights must lie in order");
    }
    let shape = op.result(0).ty().shape();
    let roles: Vec<Role> =
        w.domain().iter().zip([Role::Outer(0), Role::Left, Role::Right]).filter(|(size, _)| **size != 1).map(|(_, role)| role).collect();
    let sizes: Vec<i64> = w.domain().into_iter().filter(|&size| size != 1).collect();
    if shape != sizes {
        return Err("positions of the result must be one dimension");
    }
    let kernel = Kernel::read(function, op, roles)?;
    let given = ops::MATMUL.of(function).and_then(|attr| WindowSchedule::from_attr(attr, &w));
    let s = given.map_or_else(|| choose(&w, 0), Ok)?;
    if kernel.scratch.map_or(0, |memory| memory.ty().numel()) < w.copy() {
        return Err("less scratch memory than the images' copy needs");
    }
    let end = function.body().and_then(IrBlock::terminator).ok_or("a kernel without a terminator")?;
    let code = Code { b: Builder::before(end).with_loc(op.loc()) };
    let reach = |sizes: &[i64], strides: &[i64]| 1 + sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum::<i64>();
    let images = code.recast(input, None, &[reach(&input.ty().shape(), &w.input)], &[1]);
    let weights = weight.map(|weight| code.recast(weight, None, &[weight.ty().numel()], &[1]));
    // With single-channel windows, most of the time is spent outside the sums.
    let cheaper = if w.is_depthwise() { CHEAPER / 4 } else { CHEAPER };
    let parallel = w.work() / cheaper >= parallel_work;
    let mut loops = Loops { kernel: &kernel, w: &w, s: &s, images, weights, parallel };
    if w.is_depthwise() {
        loops.planes(code);
    } else {
        if let Some(scratch) = kernel.scratch.filter(|_| w.is_copied()) {
            loops.copy(code, scratch);
            loops.images = scratch;
        }
        loops.pieces(code);
    }
    erase(function, kernel.root);
    Ok(())
}

/// Returns true if elements are laid out row by row. The stride of a dimension of size 1 is ignored.
fn lies_in_order(memory: Type) -> bool {
    let shape = memory.shape();
    let row_major = Type::tensor(&shape, memory.element()).strides();
    let told = |strides: &[i64]| strides.iter().zip(&row_major).zip(&shape).all(|((stride, wanted), &size)| size == 1 || stride == wanted);
    memory.strided().is_some_and(|(strides, offset)| offset == 0 && told(&strides))
}

pub(super) struct Loops<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) w: &'a Windows,
    pub(super) s: &'a WindowSchedule,
    /// The memory that windows are read from, and the weights that they are multiplied by, each as one line of memory. Without weights, the
    /// windows' maxima are taken.
    pub(super) images: Value,
    pub(super) weights: Option<Value>,
    pub(super) parallel: bool,
}

/// Sums and panels.
type Buffers = (Value, Value);

/// One piece of work.
pub(super) struct Piece {
    /// The start of its group's channels in an image, and of its output channels among all.
    pub(super) channels: Value,
    first_output: Value,
    /// Number of output channels.
    outputs: i64,
    /// The first panel, and the one after the last, counted over all images.
    pub(super) panels: (Value, Value),
}

/// A panel: its first image, its index among the panels of the images that share them, and its first position in these images.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    pub(super) image: Value,
    pub(super) number: Value,
    pub(super) first: Value,
}

impl Loops<'_> {
    fn pieces(&self, code: Code) {
        let (w, s) = (self.w, self.s);
        let panels = s.all_panels(w);
        let (chunks, groups) = (ceiling(panels, s.chunk), ceiling(w.outputs, s.group));
        let rest = w.outputs - (groups - 1) * s.group;
        code.share_out(w.groups * chunks * groups, self.parallel, |code, i| {
            let (group, others) = (code.remainder(i, groups), code.quotient(i, groups));
            let (chunk, set) = (code.remainder(others, chunks), code.quotient(others, chunks));
            let start = code.times(set, w.channels * w.source()[1]);
            let first_output = code.add(code.times(set, w.outputs), code.times(group, s.group));
            let first = code.times(chunk, s.chunk);
            let behind = code.at_most(code.plus(first, s.chunk), panels);
            let buffers = self.buffers(code);
            let piece = |outputs| Piece { channels: start, first_output, outputs, panels: (first, behind) };
            if rest == s.group || groups == 1 {
                self.piece(code, buffers, &piece(rest));
            } else {
                let is_whole = code.is_below(group, groups - 1);
                code.choose(is_whole, |code| self.piece(code, buffers, &piece(s.group)), |code| self.piece(code, buffers, &piece(rest)));
            }
        });
    }

    /// Steps along k of a panel.
    fn depth(&self) -> i64 {
        self.s.depth.min(self.w.channels) * self.w.taps()
    }

    /// A thread's buffers for groups of any size: sums and panels.
    fn buffers(&self, code: Code) -> Buffers {
        let (element, lanes, depth) = (self.images.ty().element(), self.s.lanes() * self.s.chunk, self.depth());
        let outputs = self.s.group.min(self.w.outputs);
        (code.local(element, outputs * lanes), code.local(element, depth * lanes))
    }

    /// Number of panels of the images that share them.
    pub(super) fn panels(&self) -> i64 {
        self.s.panels(self.w)
    }
    pub(super) fn panel(&self, code: Code, number: Value) -> Panel {
        let (panels, images) = (self.panels(), self.s.images);
        let (image, number) = if self.w.images == images {
            (code.index(0), number)
        } else {
            (code.times(code.quotient(number, panels), images), code.remainder(number, panels))
        };
        Panel { image, number, first: code.times(number, self.s.lanes()) }
    }

    fn piece(&self, code: Code, (sums, packed): Buffers, piece: &Piece) {
        let (w, s, lanes, depth) = (self.w, self.s, self.s.lanes(), self.depth());
        fill(&code, sums);
        code.times_do(ceiling(w.channels, s.depth), |code, step| {
            let from = code.times(step, s.depth);
            let channels = code.at_most(code.sub(code.index(w.channels), from), s.depth);
            self.pack_all(code, piece, (from, channels), (packed, depth * lanes));
            let count = code.times(channels, w.taps());
            self.tiles(code, piece, code.times(from, w.taps()), count, (sums, packed));
        });
        if s.images > 1 {
            self.finish_images(code, sums, piece);
        } else {
            self.finish_panels(code, sums, piece);
        }
    }

    /// The strides of a piece's sums: from one panel to the next, and from one output channel to the next. The positions of images that
    /// share panels are all contiguous.
    fn sums_strides(&self, outputs: i64) -> (i64, i64) {
        let lanes = self.s.lanes();
        if self.s.images > 1 { (lanes, lanes * self.s.chunk) } else { (outputs * lanes, lanes) }
    }

    /// Computes the results from the sums, panel by panel.
    fn finish_panels(&self, code: Code, sums: Value, piece: &Piece) {
        let (w, lanes, panels) = (self.w, self.s.lanes(), self.panels());
        let rest = w.positions() - (panels - 1) * lanes;
        let (apart, pitch) = self.sums_strides(piece.outputs);
        code.for_each((piece.panels.0, piece.panels.1, 1), &[], |code, number, _| {
            let from = Some(code.times(code.sub(number, piece.panels.0), apart));
            let panel = self.panel(code, number);
            let finish = |code: Code, valid: i64| {
                let left = (piece.first_output, piece.outputs);
                let block = Block { outer: vec![panel.image], left, right: (panel.first, valid) };
                epilogue::apply(code, self.kernel, &block, Sums { memory: sums, from, strides: (pitch, 1) });
            };
            if rest == lanes || panels == 1 {
                finish(code, rest);
            } else {
                code.choose(code.is_below(panel.number, panels - 1), |code| finish(code, lanes), |code| finish(code, rest));
            }
            Vec::new()
        });
    }

    /// The same image by image, for images that share panels.
    fn finish_images(&self, code: Code, sums: Value, piece: &Piece) {
        let positions = self.w.positions();
        let first = self.panel(code, piece.panels.0).image;
        let (_, pitch) = self.sums_strides(piece.outputs);
        code.times_do(self.s.images, |code, i| {
            let left = (piece.first_output, piece.outputs);
            let block = Block { outer: vec![code.add(first, i)], left, right: (code.index(0), positions) };
            let from = Some(code.times(i, positions));
            epilogue::apply(code, self.kernel, &block, Sums { memory: sums, from, strides: (pitch, 1) });
        });
    }

    /// Adds products tile by tile: a tile's weights stay in the innermost cache while the panels are processed.
    fn tiles(&self, code: Code, piece: &Piece, from: Value, count: Value, (sums, packed): Buffers) {
        let (s, k, lanes, depth) = (self.s, self.w.k(), self.s.lanes(), self.depth());
        let Some(memory) = self.weights else { return };
        let (apart, pitch) = self.sums_strides(piece.outputs);
        tile::for_each(code, piece.outputs, s.rows, |code, row, tall| {
            let first = code.add(piece.first_output, row);
            let rows = Source { memory, base: code.add(code.times(first, k), from), stride: k, along_k: 1, ahead: 0 };
            code.for_each((piece.panels.0, piece.panels.1, 1), &[], |code, number, _| {
                let place = code.sub(number, piece.panels.0);
                let panel = Source { memory: packed, base: code.times(place, depth * lanes), stride: 1, along_k: lanes, ahead: 0 };
                let at = code.add(code.times(place, apart), code.times(row, pitch));
                tile::accumulate(code, Tile { rows: tall, lanes, width: s.width }, rows, panel, count, (sums, at, pitch));
                Vec::new()
            });
        });
    }
}
