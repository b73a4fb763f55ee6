//! CPython 3.13: the slot for a call's object is above the callable.

use dynamlir_bytecode::{Instruction, Opcode, Version};

use super::VersionTable;
use crate::ops::{
    Op, arithmetic, asynchronous, attributes, calls, containers, exceptions, format, functions, generators, imports, intrinsics, items,
    iteration, jumps, locals, matching, names, stack, with,
};

pub(super) static TABLE: VersionTable = VersionTable { version: Version::V3_13, op, wraps_yield: intrinsics::wraps_yield };

#[expect(clippy::match_same_arms, reason = "a row for each opcode, in the order of the documentation")]
fn op(instruction: &Instruction) -> Option<Op> {
    Some(match instruction.opcode {
        Opcode::Nop => stack::nop,
        Opcode::Resume => stack::resume,
        Opcode::LoadConst => stack::load_const,
        Opcode::PopTop => stack::pop_top,
        Opcode::PushNull => stack::push_null,
        Opcode::Copy => stack::copy,
        Opcode::Swap => stack::swap,

        Opcode::LoadFast | Opcode::LoadFastCheck => locals::load_fast,
        Opcode::LoadFastLoadFast => locals::load_fast_load_fast,
        Opcode::StoreFastLoadFast => locals::store_fast_load_fast,
        Opcode::StoreFastStoreFast => locals::store_fast_store_fast,
        Opcode::StoreFast => locals::store_fast,
        Opcode::DeleteFast => locals::delete_fast,
        Opcode::MakeCell => locals::make_cell,
        Opcode::CopyFreeVars => locals::copy_free_vars,
        Opcode::LoadDeref => locals::load_deref,
        Opcode::StoreDeref => locals::store_deref,
        Opcode::DeleteDeref => locals::delete_deref,
        Opcode::LoadFromDictOrDeref => locals::load_from_dict_or_deref,
        Opcode::LoadFastAndClear => locals::load_fast_and_clear,

        Opcode::LoadName => names::load_name,
        Opcode::StoreName => names::store_name,
        Opcode::DeleteName => names::delete_name,
        Opcode::LoadGlobal => names::load_global_null_last,
        Opcode::LoadLocals => names::load_locals,
        Opcode::LoadFromDictOrGlobals => names::load_from_dict_or_globals,
        Opcode::StoreGlobal => names::store_global,
        Opcode::DeleteGlobal => names::delete_global,
        Opcode::LoadBuildClass => names::load_build_class,
        Opcode::LoadAssertionError => names::load_assertion_error,
        Opcode::SetupAnnotations => names::setup_annotations,

        Opcode::LoadAttr => attributes::load_attr_or_method_null_last,
        Opcode::LoadSuperAttr => attributes::load_super_attr_null_last,
        Opcode::StoreAttr => attributes::store_attr,
        Opcode::DeleteAttr => attributes::delete_attr,

        Opcode::UnaryNegative => arithmetic::negative,
        Opcode::UnaryInvert => arithmetic::invert,
        Opcode::UnaryNot => arithmetic::not,
        Opcode::BinaryOp => arithmetic::binary,
        Opcode::CompareOp => arithmetic::compare_shifted_5,
        Opcode::ToBool => arithmetic::to_bool,
        Opcode::IsOp => arithmetic::is,
        Opcode::ContainsOp => arithmetic::contains,

        Opcode::BinarySubscr => items::get,
        Opcode::StoreSubscr => items::set,
        Opcode::DeleteSubscr => items::delete,
        Opcode::BinarySlice => items::get_slice,
        Opcode::StoreSlice => items::set_slice,
        Opcode::BuildSlice => items::build_slice,

        Opcode::BuildTuple => containers::tuple,
        Opcode::BuildList => containers::list,
        Opcode::BuildSet => containers::set,
        Opcode::BuildMap => containers::map,
        Opcode::BuildConstKeyMap => containers::const_key_map,
        Opcode::ListAppend => containers::list_append,
        Opcode::ListExtend => containers::list_extend,
        Opcode::SetAdd => containers::set_add,
        Opcode::SetUpdate => containers::set_update,
        Opcode::MapAdd => containers::map_add,
        Opcode::DictUpdate => containers::dict_update,
        Opcode::DictMerge => containers::dict_merge_null_last,

        Opcode::Call => calls::call_null_last,
        Opcode::CallKw => calls::call_kw,
        Opcode::CallFunctionEx => calls::call_ex_null_last,
        Opcode::MakeFunction => functions::make_function,
        Opcode::SetFunctionAttribute => functions::set_attribute,

        Opcode::JumpForward | Opcode::JumpBackward => jumps::always,
        Opcode::JumpBackwardNoInterrupt => jumps::without_interrupt,
        Opcode::PopJumpIfTrue => jumps::pop_if_true,
        Opcode::PopJumpIfFalse => jumps::pop_if_false,
        Opcode::PopJumpIfNone => jumps::pop_if_none,
        Opcode::PopJumpIfNotNone => jumps::pop_if_not_none,
        Opcode::ReturnConst => jumps::return_const,
        Opcode::ReturnValue => jumps::return_value,

        Opcode::GetIter => iteration::get_iter,
        Opcode::ForIter => iteration::for_iter_over_end_and_pop,
        Opcode::EndFor => stack::pop_top,
        Opcode::UnpackSequence => iteration::unpack_sequence,
        Opcode::UnpackEx => iteration::unpack_ex,

        Opcode::RaiseVarargs => exceptions::raise,
        Opcode::Reraise => exceptions::reraise,
        Opcode::PushExcInfo => exceptions::push_exc_info,
        Opcode::PopExcept => exceptions::pop_except_none,
        Opcode::CheckExcMatch => exceptions::check_match,
        Opcode::CheckEgMatch => exceptions::check_group_match,
        Opcode::EndAsyncFor => exceptions::end_async_for,

        Opcode::BeforeWith => with::before,
        Opcode::BeforeAsyncWith => with::before_async,
        Opcode::WithExceptStart => with::except_start,

        Opcode::YieldValue => generators::suspend,
        Opcode::GetYieldFromIter => generators::get_yield_from_iter,
        Opcode::Send => generators::send_keeping,
        Opcode::EndSend => stack::pop_second,
        Opcode::CleanupThrow => generators::cleanup_throw,
        Opcode::GetAwaitable => asynchronous::get_awaitable,
        Opcode::GetAiter => asynchronous::get_aiter,
        Opcode::GetAnext => asynchronous::get_anext,

        Opcode::ConvertValue => format::convert,
        Opcode::FormatSimple => format::simple,
        Opcode::FormatWithSpec => format::with_spec,
        Opcode::BuildString => format::build_string,

        Opcode::ImportName => imports::name,
        Opcode::ImportFrom => imports::from,

        Opcode::GetLen => matching::length,
        Opcode::MatchMapping => matching::mapping,
        Opcode::MatchSequence => matching::sequence,
        Opcode::MatchKeys => matching::keys,
        Opcode::MatchClass => matching::class,

        Opcode::CallIntrinsic1 | Opcode::CallIntrinsic2 => return intrinsics::op(instruction),
        // Frames that create generators never start here.
        Opcode::ReturnGenerator => generators::suspend,
        _ => return None,
    })
}
