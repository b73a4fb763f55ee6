//! CPython 3.13.

use super::{
    CRecursion, CodeLayout, CurrentFrame, EvalBreaker, FrameLayout, InlineValues, InstructionPointer, Layout, Leaving, ManagedStorage,
    ThreadLayout, TypeLayout,
};

pub(super) static LAYOUT: Layout = Layout {
    version: (3, 13),
    frame: FrameLayout {
        code: 0,
        function: 16,
        globals: 24,
        builtins: 32,
        locals: 40,
        object: 48,
        previous: 8,
        instruction: 56,
        instruction_is: InstructionPointer::Current,
        stack_top: 64,
        is_entry: None,
        owner: 70,
        localsplus: 72,
    },
    thread: ThreadLayout {
        interpreter: 16,
        recursion_remaining: 44,
        recursion_limit: 48,
        c_recursion: Some(CRecursion { remaining: 52, units: 2 }),
        current_frame: CurrentFrame::Direct(72),
        tracing: 60,
        profile: 80,
        trace: 88,
        exc_info: 120,
        eval_breaker: EvalBreaker::Thread(24),
    },
    code: CodeLayout { locals_count: 72, free_count: 88, local_names: 96, instructions: 200 },
    types: TypeLayout { version_tag: 384 },
    dict_version: Some(24),
    inline_values: Some(InlineValues { first: 8, embedded: 2 }),
    managed_storage: ManagedStorage::Dict,
    leaving: Leaving::Call,
    called_pattern: "class",
    import_error_has_name: true,
    set_code_extra: "PyUnstable_Code_SetExtra",
    get_code_extra: "PyUnstable_Code_GetExtra",
    request_code_extra: "PyUnstable_Eval_RequestCodeExtraIndex",
};
