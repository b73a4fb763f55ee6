//! CPython 3.11.

use super::{
    CodeLayout, CurrentFrame, EvalBreaker, FrameLayout, InstructionPointer, Layout, Leaving, ManagedStorage, ThreadLayout, TypeLayout,
};

pub(super) static LAYOUT: Layout = Layout {
    version: (3, 11),
    frame: FrameLayout {
        code: 32,
        function: 0,
        globals: 8,
        builtins: 16,
        locals: 24,
        object: 40,
        previous: 48,
        instruction: 56,
        instruction_is: InstructionPointer::Previous,
        stack_top: 64,
        is_entry: Some(68),
        owner: 69,
        localsplus: 72,
    },
    thread: ThreadLayout {
        interpreter: 16,
        recursion_remaining: 32,
        recursion_limit: 36,
        c_recursion: None,
        current_frame: CurrentFrame::CFrame { cframe: 56, frame: 8 },
        tracing: 44,
        profile: 64,
        trace: 72,
        exc_info: 120,
        eval_breaker: EvalBreaker::Interpreter(100),
    },
    code: CodeLayout { locals_count: 76, free_count: 92, local_names: 96, instructions: 184 },
    types: TypeLayout { version_tag: 384 },
    dict_version: Some(24),
    inline_values: None,
    managed_storage: ManagedStorage::DictOrValues { keys: 872 },
    leaving: Leaving::Caller,
    called_pattern: "type",
    import_error_has_name: false,
    set_code_extra: "_PyCode_SetExtra",
    get_code_extra: "_PyCode_GetExtra",
    request_code_extra: "_PyEval_RequestCodeExtraIndex",
};
