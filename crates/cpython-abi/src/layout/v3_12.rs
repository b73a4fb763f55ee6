//! CPython 3.12.

use super::{
    CRecursion, CodeLayout, CurrentFrame, EvalBreaker, FrameLayout, InstructionPointer, Layout, Leaving, ManagedStorage, ThreadLayout,
    TypeLayout,
};

pub(super) static LAYOUT: Layout = Layout {
    version: (3, 12),
    frame: FrameLayout {
        code: 0,
        function: 16,
        globals: 24,
        builtins: 32,
        locals: 40,
        object: 48,
        previous: 8,
        instruction: 56,
        instruction_is: InstructionPointer::Previous,
        stack_top: 64,
        is_entry: None,
        owner: 70,
        localsplus: 72,
    },
    thread: ThreadLayout {
        interpreter: 16,
        recursion_remaining: 28,
        recursion_limit: 32,
        c_recursion: Some(CRecursion { remaining: 36, units: 2 }),
        current_frame: CurrentFrame::CFrame { cframe: 56, frame: 0 },
        tracing: 44,
        profile: 64,
        trace: 72,
        exc_info: 104,
        eval_breaker: EvalBreaker::Interpreter(368),
    },
    code: CodeLayout { locals_count: 72, free_count: 88, local_names: 96, instructions: 192 },
    types: TypeLayout { version_tag: 384 },
    dict_version: Some(24),
    inline_values: None,
    managed_storage: ManagedStorage::Tagged { keys: 880 },
    leaving: Leaving::Default,
    called_pattern: "class",
    import_error_has_name: true,
    set_code_extra: "PyUnstable_Code_SetExtra",
    get_code_extra: "PyUnstable_Code_GetExtra",
    request_code_extra: "PyUnstable_Eval_RequestCodeExtraIndex",
};
