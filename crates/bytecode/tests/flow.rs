//! Control flow, liveness and assembling, on handwritten code.

use dynamlir_bytecode::{
    AssembleError, Assembly, Code, Dominators, EdgeKind, Flow, Liveness, Opcode, Operation, Position, Positions, Protected, StackDepths,
    StackError, Version,
};

const NOWHERE: Position = Position { line: None, end_line: None, column: None, end_column: None };

fn op(opcode: Opcode, arg: u32) -> Operation {
    Operation { opcode, arg, target: None, position: NOWHERE }
}

fn jump(opcode: Opcode, target: usize) -> Operation {
    Operation { opcode, arg: 0, target: Some(target), position: NOWHERE }
}

fn code(operations: Vec<Operation>, protected: Vec<Protected>) -> Code {
    let made = Assembly { version: Version::V3_12, operations, protected }.assemble(1).expect("assembles");
    Code::decode(Version::V3_12, &made.bytecode, &made.exception_table).expect("decodes")
}

/// `while a: b = a`, then `return b`; slots 0 and 1.
fn loop_code() -> Code {
    code(
        vec![
            op(Opcode::LoadFast, 0),
            jump(Opcode::PopJumpIfFalse, 5),
            op(Opcode::LoadFast, 0),
            op(Opcode::StoreFast, 1),
            jump(Opcode::JumpBackward, 0),
            op(Opcode::LoadFast, 1),
            op(Opcode::ReturnValue, 0),
        ],
        vec![],
    )
}

#[test]
fn a_loop_has_three_blocks() {
    let code = loop_code();
    let flow = Flow::of(&code);
    let ranges: Vec<_> = flow.blocks.iter().map(|block| (block.first, block.end)).collect();
    assert_eq!(ranges, [(0, 2), (2, 5), (5, 7)]);
    let edges: Vec<Vec<_>> = flow.blocks.iter().map(|block| block.successors.iter().map(|edge| (edge.kind, edge.to)).collect()).collect();
    assert_eq!(edges, [vec![(EdgeKind::Next, 1), (EdgeKind::Jump, 2)], vec![(EdgeKind::Jump, 0)], vec![]]);
    let dominators = Dominators::of(&flow);
    assert_eq!([1, 2].map(|block| dominators.immediate(block)), [Some(0), Some(0)]);
    assert!(dominators.dominates(0, 2) && !dominators.dominates(1, 2));
}

#[test]
fn what_is_read_later_is_live() {
    let code = loop_code();
    let flow = Flow::of(&code);
    let liveness = Liveness::of(&code, &flow);
    assert_eq!(liveness.live(0), [0, 1], "b is read if the loop does not run");
    assert_eq!(liveness.live(3), [0], "b is about to be written");
    assert_eq!(liveness.live(5), [1], "nobody asks for a any more");
}

#[test]
fn a_handler_keeps_what_it_reads_alive() {
    // try: a = f(); a = g()  except: return a
    let operations = vec![
        op(Opcode::LoadFast, 1),
        op(Opcode::StoreFast, 0),
        op(Opcode::LoadFast, 2),
        op(Opcode::StoreFast, 0),
        op(Opcode::ReturnConst, 0),
        op(Opcode::PushExcInfo, 0),
        op(Opcode::LoadFast, 0),
        op(Opcode::ReturnValue, 0),
    ];
    let protected = vec![Protected { start: 0, end: 4, target: 5, depth: 0, lasti: false }];
    let code = code(operations, protected);
    let flow = Flow::of(&code);
    let liveness = Liveness::of(&code, &flow);
    assert_eq!(liveness.live(0), [0, 1, 2], "the exception may come before anything is written");
    assert_eq!(liveness.live(4), [] as [u32; 0], "outside the region");
    let depths = StackDepths::of(&code, &flow).expect("a sound stack");
    assert_eq!(depths.before[5], Some(1), "the exception is on the stack");
}

#[test]
fn unsound_stacks_are_errors() {
    let underflow = code(vec![op(Opcode::PopTop, 0), op(Opcode::ReturnConst, 0)], vec![]);
    assert_eq!(StackDepths::of(&underflow, &Flow::of(&underflow)), Err(StackError::Underflow(0)));
    let unequal =
        code(vec![op(Opcode::LoadFast, 0), jump(Opcode::PopJumpIfFalse, 3), op(Opcode::LoadFast, 0), op(Opcode::ReturnConst, 0)], vec![]);
    let found = StackDepths::of(&unequal, &Flow::of(&unequal));
    assert!(matches!(found, Err(StackError::Unequal { unit: 3, .. })), "{found:?}");
}

#[test]
fn long_jumps_get_prefixes() {
    let mut operations = vec![jump(Opcode::JumpForward, 301)];
    operations.extend(std::iter::repeat_n(op(Opcode::Nop, 0), 300));
    operations.push(op(Opcode::ReturnConst, 0));
    let code = code(operations, vec![]);
    let first = code.instructions[0];
    assert_eq!((first.arg, first.unit), (300, 1), "one EXTENDED_ARG in front");
    assert_eq!(first.target, Some(code.instructions[301].start));
}

#[test]
fn assembling_says_what_is_wrong() {
    let assemble = |operations| Assembly { version: Version::V3_11, operations, protected: vec![] }.assemble(1).map(|_| ());
    let end = || op(Opcode::ReturnValue, 0);
    assert_eq!(assemble(vec![op(Opcode::EndFor, 0)]), Err(AssembleError::Opcode(Version::V3_11, Opcode::EndFor)));
    assert_eq!(assemble(vec![op(Opcode::JumpForward, 1), end()]), Err(AssembleError::Target(0, Opcode::JumpForward)));
    assert_eq!(assemble(vec![jump(Opcode::Nop, 1), end()]), Err(AssembleError::Target(0, Opcode::Nop)));
    assert_eq!(assemble(vec![end(), jump(Opcode::JumpForward, 0)]), Err(AssembleError::Direction(1, Opcode::JumpForward)));
    assert_eq!(assemble(vec![jump(Opcode::JumpForward, 7)]), Err(AssembleError::Index(7)));
}

#[test]
fn line_tables_come_back() {
    let position = |line: u32, end_line: u32, columns: Option<(u32, u32)>| Position {
        line: Some(line),
        end_line: Some(end_line),
        column: columns.map(|(column, _)| column),
        end_column: columns.map(|(_, end)| end),
    };
    // Each form of entry: short, one line, two lines on, long, backward, without columns, without anything.
    let positions = [
        position(5, 5, Some((4, 9))),
        position(6, 6, Some((4, 90))),
        position(8, 8, Some((100, 101))),
        position(8, 12, Some((300, 2))),
        position(2, 2, Some((0, 200))),
        position(70, 70, None),
        NOWHERE,
    ];
    let operations = positions.map(|position| Operation { position, ..op(Opcode::Nop, 0) });
    for version in Version::ALL {
        let made = Assembly { version, operations: operations.to_vec(), protected: vec![] }.assemble(5).expect("assembles");
        assert_eq!(Positions::decode(&made.line_table, 5, 7).expect("decodes").0, positions, "{version}");
        for length in 0..made.line_table.len() {
            assert!(Positions::decode(&made.line_table[..length], 5, 7).is_err(), "cut to {length} bytes");
        }
    }
}
