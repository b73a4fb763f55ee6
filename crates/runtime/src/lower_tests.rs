//! Plans without torch: tables, bounds, lifetimes.

use super::*;
use crate::plan::{ExternCall, InputSpec, KernelSpec};
use crate::{ExternArg, Route};

fn f32s(n: i64) -> Layout {
    Layout::contiguous(DType::F32, &[n])
}

fn input(layout: Layout, mutated: bool) -> InputSpec {
    InputSpec { layout, storage: None, mutated, version_bumps: 0 }
}

fn relu(result: Option<Layout>) -> ExternCall {
    let (schema, location) = ("aten.relu.default".to_owned(), String::new());
    ExternCall { schema, args: vec![ExternArg::Operand(0)], route: Route::CShim, result_layouts: vec![result], location }
}

/// A kernel that writes its last argument.
fn kernel(arguments: usize) -> KernelSpec {
    KernelSpec { name: "k".to_owned(), arguments, written: 1, sizes: 0 }
}

fn launch(args: &[Reg]) -> Step {
    Step::Launch { kernel: 0, args: args.to_vec(), sizes: vec![] }
}

fn error(plan: &Plan) -> String {
    lower(plan).expect_err("is refused").to_string()
}

#[test]
fn addresses_follow_their_roots() {
    let offset_input = f32s(4).with_offset(5);
    let plan = Plan {
        inputs: vec![input(offset_input, false)],
        workspace_bytes: 256,
        steps: vec![
            Step::Buffer { dst: 1, byte_offset: 64, layout: f32s(8) },
            Step::View { dst: 2, src: 1, layout: f32s(4).with_offset(4) },
            // A view of a view counts from the buffer, not from the view.
            Step::View { dst: 3, src: 2, layout: f32s(2).with_offset(2) },
            Step::View { dst: 4, src: 0, layout: f32s(2).with_offset(7) },
            Step::OutputBuffer { dst: 5, layout: f32s(4) },
            launch(&[0, 1, 2, 3, 4, 5]),
        ],
        results: vec![5],
        outputs: vec![Output::Result(0), Output::None],
        kernels: vec![kernel(6)],
        ..Plan::default()
    };
    let p = lower(&plan).expect("is fine");
    assert_eq!(p.input_binds, [(0, (0, 0)), (0, (4, 8))]);
    assert_eq!(p.workspace_binds, [(1, 64), (2, 80), (3, 72)]);
    assert_eq!(p.slot_binds[0].as_slice(), [(5, 0)]);
    assert_eq!(p.ops, [Op::Allocate { slot: 0 }, Op::Launch { kernel: 0, row: 0 }]);
    assert_eq!(p.input_reach, [None]);
}

#[test]
fn extern_results_are_released_after_their_last_use() {
    let plan = Plan {
        inputs: vec![input(f32s(4), false)],
        workspace_bytes: 64,
        steps: vec![
            Step::Buffer { dst: 1, byte_offset: 0, layout: f32s(4) },
            Step::Extern { call: 0, operands: vec![0], outs: vec![], results: vec![2] },
            Step::View { dst: 3, src: 2, layout: f32s(2).with_offset(1) },
            launch(&[3, 1]),
            Step::Extern { call: 0, operands: vec![1], outs: vec![], results: vec![4] },
        ],
        results: vec![4],
        outputs: vec![Output::Result(0)],
        externs: vec![relu(Some(f32s(4)))],
        kernels: vec![kernel(2)],
        ..Plan::default()
    };
    let p = lower(&plan).expect("is fine");
    let expected = [Op::Extern { step: 0 }, Op::Launch { kernel: 0, row: 0 }, Op::Release { slot: 0 }, Op::Extern { step: 1 }];
    assert_eq!(p.ops, expected);
    assert_eq!(p.externs[0].operands, [Source::Input(0)]);
    // The workspace does not have a tensor object of its own: one is created and kept.
    assert_eq!(p.externs[1].operands, [Source::Handle(0)]);
    assert_eq!(p.slot_binds[0].as_slice(), [(0, 4)]);
}

#[test]
fn reaching_beyond_an_input_is_left_to_the_call() {
    let plan = Plan {
        inputs: vec![input(f32s(4).with_offset(4), false)],
        steps: vec![Step::View { dst: 1, src: 0, layout: f32s(10).with_offset(0) }],
        ..Plan::default()
    };
    assert_eq!(lower(&plan).expect("is fine").input_reach, [Some((-16, 24))]);
}

#[test]
fn bad_plans_are_refused_with_a_reason() {
    let base = Plan { inputs: vec![input(f32s(4), true)], workspace_bytes: 16, ..Plan::default() };
    let with = |steps: Vec<Step>| Plan { steps, ..base.clone() };
    let commit = Step::Commit;
    assert!(error(&base).contains("no commit"));
    assert!(error(&with(vec![commit.clone(), commit.clone()])).contains("second commit"));
    assert!(error(&with(vec![Step::Buffer { dst: 1, byte_offset: 4, layout: f32s(4) }, commit.clone()])).contains("outside"));
    assert!(error(&with(vec![Step::View { dst: 1, src: 9, layout: f32s(1) }, commit.clone()])).contains("not defined"));
    assert!(error(&with(vec![Step::OutputBuffer { dst: 0, layout: f32s(1) }])).contains("twice"));
    assert!(error(&with(vec![launch(&[])])).contains("no kernel"));
    let early = Plan {
        externs: vec![relu(Some(f32s(4)))],
        steps: vec![Step::Extern { call: 0, operands: vec![0], outs: vec![0], results: vec![] }, commit.clone()],
        ..base.clone()
    };
    assert!(error(&early).contains("relu.default writes an input"));
    let returned_input = Plan { results: vec![0], ..with(vec![commit.clone()]) };
    assert!(error(&returned_input).contains("not memory of its own"));
    let repeated = Plan {
        results: vec![1],
        outputs: vec![Output::Result(0), Output::Result(0)],
        ..with(vec![Step::OutputBuffer { dst: 1, layout: f32s(1) }, commit])
    };
    assert!(error(&repeated).contains("same"));
}

#[test]
fn a_check_has_an_address_of_its_own() {
    let i64s = Layout::contiguous(DType::I64, &[4]);
    let odd = Layout::contiguous(DType::I64, &[2]).with_strides(&[2]).with_offset(1);
    let check = |src| Step::CheckRange { src, low: 0, high: 10, message: "out of range".to_owned() };
    let launch = launch(&[0, 1]);
    let plan = Plan {
        inputs: vec![input(f32s(4), false)],
        workspace_bytes: 64,
        steps: vec![
            Step::Buffer { dst: 1, byte_offset: 0, layout: i64s },
            Step::View { dst: 2, src: 1, layout: odd },
            launch.clone(),
            check(2),
            launch,
        ],
        kernels: vec![kernel(2)],
        ..Plan::default()
    };
    let p = lower(&plan).expect("is fine");
    assert_eq!(p.workspace_binds, [(1, 0), (2, 8), (4, 0)]);
    assert_eq!(p.ops[1], Op::CheckRange { check: 0 });
    assert_eq!((p.checks[0].row, &p.checks[0].strides), (2, &vec![2]));

    let refused = |steps: Vec<Step>| error(&Plan { inputs: vec![input(f32s(4), false)], steps, ..Plan::default() });
    assert!(refused(vec![check(0)]).contains("a range check of"));
    assert!(refused(vec![Step::Commit, check(0)]).contains("after the commit"));
}

#[test]
fn writes_meet_nothing_else() {
    let (i8s, shared) = (|n, offset| Layout::contiguous(DType::I8, &[n]).with_offset(offset), Some(7));
    let of = |offset| InputSpec { storage: shared, mutated: true, ..input(i8s(8, offset), true) };
    let base = Plan {
        // Two windows on one storage, eight bytes apart, and an unrelated input.
        inputs: vec![of(0), of(8), input(i8s(8, 0), false)],
        workspace_bytes: 64,
        kernels: vec![kernel(2)],
        ..Plan::default()
    };
    let steps = |steps: &[Step]| Plan { steps: [steps, &[Step::Commit]].concat(), ..base.clone() };
    let buffer = |dst, byte_offset, layout| Step::Buffer { dst, byte_offset, layout };
    let view = |dst, src, layout| Step::View { dst, src, layout };

    let apart = [buffer(3, 0, i8s(8, 0)), buffer(4, 8, i8s(8, 0)), launch(&[3, 4]), launch(&[2, 3])];
    assert!(lower(&steps(&apart)).is_ok());
    let touching = [buffer(3, 0, i8s(8, 0)), buffer(4, 7, i8s(8, 0)), launch(&[3, 4])];
    assert!(error(&steps(&touching)).contains("step 2: what is written overlaps"));
    let same = [buffer(3, 0, i8s(8, 0)), launch(&[3, 3])];
    assert!(error(&steps(&same)).contains("overlaps"));
    let twice = i8s(8, 0).with_strides(&[0]);
    assert!(error(&steps(&[buffer(3, 0, twice), launch(&[2, 3])])).contains("would be written twice"));
    let odd = [buffer(3, 2, Layout::contiguous(DType::F32, &[2]))];
    assert!(error(&steps(&odd)).contains("not aligned"));

    assert!(error(&steps(&[launch(&[2, 0])])).contains("input 0 is written before the commit"));
    let after = |steps: &[Step]| Plan { steps: [&[Step::Commit], steps].concat(), ..base.clone() };
    assert!(lower(&after(&[launch(&[2, 0])])).is_ok());
    assert!(lower(&after(&[launch(&[1, 0])])).is_ok());
    assert!(error(&after(&[launch(&[0, 2])])).contains("not listed as mutated"));
    // One element of input 1 is the last that this view of input 0 shows.
    let across = [view(3, 0, i8s(9, 0)), launch(&[3, 1])];
    assert!(error(&after(&across)).contains("overlaps"));
    assert!(error(&after(&[view(3, 0, i8s(9, 0)), launch(&[2, 3])])).contains("outside of its own elements"));
    assert!(error(&after(&[launch(&[2, 1, 0])])).contains("k takes 2 arguments, 3 are given"));
}

#[test]
fn steps_are_known_by_where_they_come_from() {
    let plan = Plan {
        steps: vec![Step::Commit, Step::Commit],
        origins: vec![String::new(), "dynamo.commit (m.py:3)".to_owned()],
        ..Plan::default()
    };
    assert_eq!(error(&plan), "invalid plan: dynamo.commit (m.py:3): a second commit");
}

#[test]
fn numbers_that_torch_has_no_tensor_for_are_refused() {
    let refused = |input: Layout, steps: Vec<Step>| {
        error(&Plan {
            inputs: vec![InputSpec { layout: input, storage: None, mutated: false, version_bumps: 0 }],
            steps,
            ..Plan::default()
        })
    };
    let backwards = f32s(4).with_strides(&[-1]);
    assert!(refused(backwards.clone(), vec![]).contains("input 0: a tensor cannot have strides [-1]"));
    assert!(refused(f32s(4), vec![Step::OutputBuffer { dst: 1, layout: backwards.clone() }]).contains("cannot have strides"));
    assert!(refused(f32s(4).with_offset(i64::MIN), vec![]).contains("beyond any memory"));
    // A kernel may read backwards, but an operator never receives such a tensor.
    let reverse = Step::View { dst: 1, src: 0, layout: backwards.with_offset(3) };
    let call = Step::Extern { call: 0, operands: vec![1], outs: vec![], results: vec![] };
    let plan = Plan { inputs: vec![input(f32s(4), false)], steps: vec![reverse, call], externs: vec![relu(None)], ..Plan::default() };
    assert!(error(&plan).contains("cannot have strides [-1]"));
}

#[test]
fn outputs_stay_inside_what_they_show() {
    let plan = |output: Output| Plan {
        inputs: vec![input(f32s(4).with_offset(2), false)],
        steps: vec![Step::OutputBuffer { dst: 1, layout: f32s(4) }],
        results: vec![1],
        outputs: vec![output],
        ..Plan::default()
    };
    let result = |sizes: &[i64], offset| Output::ResultView { result: 0, sizes: sizes.to_vec(), strides: vec![1], offset };
    let arg = |arg, strides: &[i64], offset| Output::ArgView { arg, sizes: vec![2], strides: strides.to_vec(), offset };
    assert!(lower(&plan(result(&[2], 2))).is_ok());
    assert!(error(&plan(result(&[2], 3))).contains("output 0: bytes 12..20 are outside of the 0..16 there are"));
    assert!(error(&plan(result(&[2], -1))).contains("cannot have"));
    assert!(error(&plan(result(&[2, 2], 0))).contains("2 sizes but 1 strides"));
    // It is known only at the call whether memory exists before an input's first element.
    assert_eq!(lower(&plan(arg(0, &[1], 0))).expect("is fine").input_reach, [Some((-8, 0))]);
    assert_eq!(lower(&plan(arg(0, &[1], 2))).expect("is fine").input_reach, [None]);
    assert!(error(&plan(arg(1, &[1], 0))).contains("does not exist"));
    assert!(error(&plan(Output::Same(0))).contains("does not exist"));
}
