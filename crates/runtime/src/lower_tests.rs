//! Plans without torch: tables, bounds, lifetimes.

use super::*;
use crate::plan::{ExternCall, InputSpec};
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

fn error(plan: &Plan) -> String {
    lower(plan).expect_err("is refused").to_string()
}

#[test]
fn addresses_follow_their_roots() {
    let offset_input = Layout { offset: 5, ..f32s(4) };
    let plan = Plan {
        inputs: vec![input(offset_input, false)],
        workspace_bytes: 256,
        steps: vec![
            Step::Buffer { dst: 1, byte_offset: 64, layout: f32s(8) },
            Step::View { dst: 2, src: 1, layout: Layout { offset: 4, ..f32s(4) } },
            // A view of a view counts from the buffer, not from the view.
            Step::View { dst: 3, src: 2, layout: Layout { offset: 2, ..f32s(2) } },
            Step::View { dst: 4, src: 0, layout: Layout { offset: 7, ..f32s(2) } },
            Step::OutputBuffer { dst: 5, layout: f32s(4) },
            Step::Launch { kernel: 0, args: vec![0, 1, 2, 3, 4, 5] },
        ],
        results: vec![5],
        outputs: vec![Output::Result(0), Output::None],
        kernels: vec!["k".to_owned()],
        ..Plan::default()
    };
    let p = lower(&plan).expect("is fine");
    assert_eq!(p.input_binds, [vec![(0, 0), (4, 8)]]);
    assert_eq!(p.workspace_binds, [(1, 64), (2, 80), (3, 72)]);
    assert_eq!(p.slot_binds, [vec![(5, 0)]]);
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
            Step::View { dst: 3, src: 2, layout: Layout { offset: 1, ..f32s(2) } },
            Step::Launch { kernel: 0, args: vec![3, 1] },
            Step::Extern { call: 0, operands: vec![1], outs: vec![], results: vec![4] },
        ],
        results: vec![4],
        outputs: vec![Output::Result(0)],
        externs: vec![relu(Some(f32s(4)))],
        kernels: vec!["k".to_owned()],
        ..Plan::default()
    };
    let p = lower(&plan).expect("is fine");
    let expected = [Op::Extern { step: 0 }, Op::Launch { kernel: 0, row: 0 }, Op::Release { slot: 0 }, Op::Extern { step: 1 }];
    assert_eq!(p.ops, expected);
    assert_eq!(p.externs[0].operands, [Source::Input(0)]);
    // The workspace has no tensor object of its own: one is made and kept.
    assert_eq!(p.externs[1].operands, [Source::Handle(0)]);
    assert_eq!(p.slot_binds[0], [(0, 4)]);
}

#[test]
fn reaching_beyond_an_input_is_left_to_the_call() {
    let plan = Plan {
        inputs: vec![input(Layout { offset: 4, ..f32s(4) }, false)],
        steps: vec![Step::View { dst: 1, src: 0, layout: Layout { offset: 0, ..f32s(10) } }],
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
    assert!(error(&with(vec![Step::Launch { kernel: 0, args: vec![] }])).contains("no kernel"));
    let early = Plan {
        externs: vec![relu(Some(f32s(4)))],
        steps: vec![Step::Extern { call: 0, operands: vec![0], outs: vec![0], results: vec![] }, commit.clone()],
        ..base.clone()
    };
    assert!(error(&early).contains("before the commit"));
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
    let odd = Layout { offset: 1, strides: vec![2], ..Layout::contiguous(DType::I64, &[2]) };
    let check = |src| Step::CheckRange { src, low: 0, high: 10, message: "out of range".to_owned() };
    let launch = Step::Launch { kernel: 0, args: vec![0, 1] };
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
        kernels: vec!["k".to_owned()],
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
