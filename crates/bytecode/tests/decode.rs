//! Tests of decoding: the parts of an instruction, and arbitrary bytes, which must not panic.

use dynamlir_bytecode::{Code, DecodeError, Handler, Opcode, Operand, Version, number_of, opcode_of};

/// Returns two bytes per instruction, from opcode and argument. Caches are zeros, as in `co_code`.
fn assemble(version: Version, units: &[(Opcode, u8)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(opcode, arg) in units {
        bytes.extend([number_of(version, opcode).unwrap_or_else(|| panic!("{version} has no {opcode}")), arg]);
        bytes.extend(std::iter::repeat_n(0, 2 * usize::from(opcode.caches(version).unwrap_or(0))));
    }
    bytes
}

fn decode(version: Version, units: &[(Opcode, u8)]) -> Result<Code, DecodeError> {
    Code::decode(version, &assemble(version, units), &[])
}

#[test]
fn extended_arguments_are_folded_in() {
    // LOAD_GLOBAL 0x012345: two prefixes, then the opcode and its caches.
    let code = decode(
        Version::V3_12,
        &[(Opcode::ExtendedArg, 0x01), (Opcode::ExtendedArg, 0x23), (Opcode::LoadGlobal, 0x45), (Opcode::ReturnValue, 0)],
    )
    .expect("valid code");
    let load = code.instructions[0];
    assert_eq!((load.opcode, load.arg), (Opcode::LoadGlobal, 0x01_23_45));
    assert_eq!((load.start, load.unit, load.next), (0, 2, 7), "prefix, opcode, after four caches");
    assert_eq!(code.index, [0, 0, 0, 0, 0, 0, 0, 1], "every unit knows its instruction");
}

#[test]
fn jumps_count_from_behind_the_caches() {
    // The same loop; 3.13's JUMP_BACKWARD has a cache entry, 3.11's does not.
    for (version, length) in [(Version::V3_11, 3), (Version::V3_13, 4)] {
        let code = decode(version, &[(Opcode::Nop, 0), (Opcode::Nop, 0), (Opcode::JumpBackward, length - 1)]).expect("valid code");
        assert_eq!(code.instructions[2].target, Some(1), "{version}");
    }
}

#[test]
fn a_jump_leads_to_an_instruction() {
    let into_a_cache = decode(Version::V3_11, &[(Opcode::JumpForward, 1), (Opcode::BinaryOp, 0), (Opcode::ReturnValue, 0)]);
    assert_eq!(into_a_cache, Err(DecodeError::Target { from: 0, to: 2 }));
    let behind_the_end = decode(Version::V3_11, &[(Opcode::JumpForward, 0)]);
    assert_eq!(behind_the_end, Err(DecodeError::Target { from: 0, to: 1 }));
    let before_the_start = decode(Version::V3_11, &[(Opcode::JumpBackward, 9)]);
    assert_eq!(before_the_start, Err(DecodeError::Target { from: 0, to: -8 }));
}

#[test]
fn handlers_are_found_by_unit() {
    // Units 1 and 2 go to the handler at 4 (depth 1, with lasti), unit 3 to the one at 5.
    let table = [0x80 | 1, 2, 4, 0b11, 0x80 | 3, 1, 5, 0];
    let code = Code::decode(Version::V3_11, &assemble(Version::V3_11, &[(Opcode::Nop, 0); 6]), &table).expect("valid code");
    let first = Some(Handler { target: 4, depth: 1, lasti: true });
    let second = Some(Handler { target: 5, depth: 0, lasti: false });
    let found: Vec<_> = (0..6).map(|unit| code.handler_for(unit)).collect();
    assert_eq!(found, [None, first, first, second, None, None]);
}

#[test]
fn malformed_code_is_an_error() {
    assert_eq!(Code::decode(Version::V3_11, &[0, 0, 0], &[]), Err(DecodeError::Length(3)));
    // CACHE is not an instruction.
    assert_eq!(Code::decode(Version::V3_11, &[0, 0], &[]), Err(DecodeError::Opcode { number: 0, unit: 0 }));
    assert_eq!(decode(Version::V3_11, &[(Opcode::ExtendedArg, 1)]), Err(DecodeError::Truncated(0)));
    assert_eq!(decode(Version::V3_11, &[(Opcode::ExtendedArg, 1); 5]), Err(DecodeError::Argument(0)));
    let mut cut = assemble(Version::V3_11, &[(Opcode::LoadGlobal, 0)]);
    cut.truncate(8);
    assert_eq!(Code::decode(Version::V3_11, &cut, &[]), Err(DecodeError::Truncated(0)));
}

#[test]
fn tables_agree_with_themselves() {
    for version in Version::ALL {
        for number in 0..=u8::MAX {
            let Some(opcode) = opcode_of(version, number) else { continue };
            assert_eq!(number_of(version, opcode), Some(number));
            let jumps = matches!(opcode.operand(version), Some(Operand::Forward | Operand::Backward));
            let named_so = opcode.name().contains("JUMP") || matches!(opcode, Opcode::ForIter | Opcode::Send);
            assert_eq!(jumps, named_so, "{version} {opcode}");
        }
    }
    assert_eq!(Opcode::named("LOAD_FAST"), Some(Opcode::LoadFast));
}

#[test]
fn no_bytes_make_it_panic() {
    // A xorshift generator: the same bytes on every run. Half of the opcodes are real, so that decoding gets far.
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut decoded = 0;
    for round in 0..60_000 {
        let version = Version::ALL[round % Version::ALL.len()];
        let mut bytes = Vec::new();
        for _ in 0..next() % 12 {
            let opcode = Opcode::ALL[next() as usize % Opcode::ALL.len()];
            let (random, arg) = (next() as u8, (next() % 8) as u8);
            let number = number_of(version, opcode).filter(|_| next() % 16 != 0).unwrap_or(random);
            bytes.extend([number, arg]);
            bytes.extend(std::iter::repeat_n(0, 2 * usize::from(opcode.caches(version).unwrap_or(0))));
        }
        let table: Vec<u8> = (0..next() % 9).map(|at| if at % 4 == 0 { 0x80 } else { 0 } | (next() % 80) as u8).collect();
        if let Ok(code) = Code::decode(version, &bytes, &table) {
            decoded += 1;
            assert_eq!(code.index.len() * 2, bytes.len());
            for unit in 0..=code.index.len() as u32 {
                let _ = code.handler_for(unit);
            }
        }
    }
    assert!(decoded > 1000, "only {decoded} were valid: the test has gone blunt");
}
