//! C functions that may be called while capturing, each with its claim. Functions that are not listed here end the capture.

use crate::objects::effects::{
    Effect,
    claim::{
        ASKS_FOR_CALL, Claim, FOLDS, GROUPS, GUARDED, ITERATES, Keeps, LAZY, NUMBERS, OTHER, OTHER_BY_FLAG, SETS, TAKES, TEXTS, WALKS,
        Writes,
    },
};

/// Functions by module: name of the module, then of the functions or types.
pub(crate) type Names = &'static [(&'static str, &'static [&'static str])];

/// A group of functions with the same effect and claim.
pub(crate) struct Row {
    pub effect: Effect,
    pub claim: Claim,
    pub names: Names,
}

pub(crate) const FUNCTIONS: &[Row] = &[
    // Calls the numeric slots of an object. An exact int, float or complex is returned unchanged.
    Row {
        effect: Effect::Pure,
        claim: NUMBERS,
        names: &[
            ("builtins", &["abs", "bin", "bool", "chr", "complex", "divmod", "float", "hex", "int", "oct", "ord", "pow", "range", "round"]),
            ("operator", &["index", "length_hint"]),
        ],
    },
    // The same, through C doubles; the result contains nothing of the arguments.
    Row {
        effect: Effect::Pure,
        claim: Claim { keeps: Keeps::Nothing, ..NUMBERS },
        names: &[(
            "math",
            &[
                "acos",
                "acosh",
                "asin",
                "asinh",
                "atan",
                "atan2",
                "atanh",
                "cbrt",
                "ceil",
                "comb",
                "copysign",
                "cos",
                "cosh",
                "degrees",
                "erf",
                "erfc",
                "exp",
                "exp2",
                "expm1",
                "fabs",
                "factorial",
                "floor",
                "fmod",
                "frexp",
                "gamma",
                "gcd",
                "hypot",
                "isclose",
                "isfinite",
                "isinf",
                "isnan",
                "isqrt",
                "lcm",
                "ldexp",
                "lgamma",
                "log",
                "log10",
                "log1p",
                "log2",
                "modf",
                "nextafter",
                "perm",
                "pow",
                "radians",
                "remainder",
                "sin",
                "sinh",
                "sqrt",
                "tan",
                "tanh",
                "trunc",
                "ulp",
            ],
        )],
    },
    // Iterates over the arguments, and adds or multiplies.
    Row { effect: Effect::Pure, claim: FOLDS, names: &[("math", &["dist", "fsum", "prod"])] },
    // Creates text and bytes from objects. An exact str or bytes is returned unchanged.
    Row { effect: Effect::Pure, claim: TEXTS, names: &[("builtins", &["ascii", "bytes", "bytearray", "format", "repr", "str"])] },
    // Iterates over the arguments at once; their elements are in the result.
    Row {
        effect: Effect::Pure,
        claim: ITERATES,
        names: &[
            ("builtins", &["all", "any", "list", "tuple"]),
            ("collections", &["deque"]),
            ("functools", &["reduce"]),
            ("torch._C", &["_fx_map_aggregate", "_fx_map_arg"]),
        ],
    },
    // The same, and compares the elements. `key=` is a function.
    Row {
        effect: Effect::Pure,
        claim: WALKS,
        names: &[
            ("builtins", &["dict", "frozendict", "frozenset", "max", "min", "set", "sorted"]),
            ("collections", &["OrderedDict", "defaultdict"]),
        ],
    },
    // Iterates over its argument later, and compares what a function returns for each element, or the elements.
    Row { effect: Effect::Pure, claim: GROUPS, names: &[("itertools", &["groupby"])] },
    // Iterates over the arguments later.
    Row {
        effect: Effect::Pure,
        claim: LAZY,
        names: &[
            ("builtins", &["enumerate", "filter", "map", "reversed", "zip"]),
            (
                "itertools",
                &[
                    "accumulate",
                    "batched",
                    "chain",
                    "combinations",
                    "combinations_with_replacement",
                    "compress",
                    "count",
                    "cycle",
                    "dropwhile",
                    "filterfalse",
                    "islice",
                    "pairwise",
                    "permutations",
                    "product",
                    "repeat",
                    "starmap",
                    "takewhile",
                    "tee",
                    "zip_longest",
                ],
            ),
        ],
    },
    // Keeps its arguments, which are read when the result is used: those uses are calls of their own.
    Row {
        effect: Effect::Pure,
        claim: TAKES,
        names: &[
            ("builtins", &["object", "slice", "super"]),
            ("functools", &["partial", "cmp_to_key"]),
            ("operator", &["attrgetter", "itemgetter", "methodcaller"]),
            ("types", &["MappingProxyType", "MethodType", "SimpleNamespace", "GenericAlias", "FunctionType", "CellType"]),
            ("_contextvars", &["ContextVar"]),
        ],
    },
    // Looks for `__call__` on the type, without calling it.
    Row { effect: Effect::Pure, claim: ASKS_FOR_CALL, names: &[("builtins", &["callable"])] },
    // Copies `__doc__` and `__wrapped__` of its argument.
    Row { effect: Effect::Pure, claim: TAKES, names: &[("builtins", &["classmethod", "property", "staticmethod"])] },
    // Refers to its argument weakly: only `weakref.getweakrefcount` shows this, which is not in the table.
    Row { effect: Effect::Pure, claim: TAKES, names: &[("_weakref", &["ref"])] },
    // Creates a class: the metaclass, `__set_name__` and `__init_subclass__` are Python code or in the table themselves. The bases'
    // `__subclasses__` list it weakly.
    Row { effect: Effect::Pure, claim: WALKS, names: &[("builtins", &["__build_class__"])] },
    // Creates a tuple of sizes from an iterable.
    Row { effect: Effect::Pure, claim: FOLDS, names: &[("torch", &["Size"])] },
    // Creates one of torch's values from numbers and names, or describes a value.
    Row {
        effect: Effect::Pure,
        claim: NUMBERS,
        names: &[("torch", &["device", "dtype", "finfo", "iinfo", "is_tensor", "memory_format", "layout"])],
    },
    // Iterates over its argument, and looks for `__torch_function__` on types.
    Row { effect: Effect::Pure, claim: FOLDS, names: &[("torch._C", &["_has_torch_function"])] },
    // Looks for `__torch_function__` on types; returns the name of a backend, which is set once; returns its argument. In torch 2.11,
    // `Function.apply` is Python code, which calls `unwrap_if_dead` on each argument.
    Row {
        effect: Effect::Pure,
        claim: TAKES,
        names: &[
            ("torch._C", &["_has_torch_function_unary", "_has_torch_function_variadic", "_get_privateuse1_backend_name"]),
            ("torch._C._functorch", &["unwrap_if_dead", "is_batchedtensor"]),
        ],
    },
    // Compares dtypes using a table.
    Row { effect: Effect::Outside, claim: Claim { keeps: Keeps::Nothing, ..TAKES }, names: &[("torch", &["promote_types", "can_cast"])] },
    // Records in a class which of its methods are abstract.
    Row { effect: Effect::MutatesFirst, claim: Claim { writes: Writes::First, ..WALKS }, names: &[("_abc", &["_abc_init"])] },
    // Counts elements in a dict.
    Row {
        effect: Effect::MutatesFirst,
        claim: Claim { writes: Writes::First, keeps: Keeps::First, ..WALKS },
        names: &[("_collections", &["_count_elements"])],
    },
    // Reads only its arguments if these are data. Otherwise it may call back, or compare.
    Row {
        effect: Effect::Data,
        claim: TAKES,
        names: &[("posix", &["fspath"]), ("sys", &["intern"]), ("_bisect", &["bisect_left", "bisect_right"])],
    },
    // State that the guard of torch's state covers. A transform shows in the thread's dispatch keys.
    Row {
        effect: Effect::ReadsState,
        claim: GUARDED,
        names: &[
            (
                "torch._C",
                &[
                    "is_grad_enabled",
                    "_is_torch_function_enabled",
                    "_is_torch_function_all_disabled",
                    "_len_torch_function_stack",
                    "_is_torch_function_mode_enabled",
                    "_get_deterministic_algorithms",
                    "_get_deterministic_algorithms_warn_only",
                    "is_autocast_enabled",
                    "is_autocast_cpu_enabled",
                    "_is_any_autocast_enabled",
                    "_is_autocast_available",
                    "get_default_dtype",
                    "_are_functorch_transforms_active",
                ],
            ),
            ("torch", &["get_default_dtype", "is_grad_enabled", "is_autocast_enabled"]),
            ("sys", &["getdefaultencoding"]),
        ],
    },
    // State whose only guard is calling the function again. A dtype set while autocast is off is not in the guarded state.
    Row {
        effect: Effect::Asked,
        claim: OTHER,
        names: &[
            (
                "torch._C",
                &[
                    "_get_default_device",
                    "_is_fwd_grad_enabled",
                    "_get_cudnn_enabled",
                    "_get_cudnn_benchmark",
                    "_get_cudnn_deterministic",
                    "_get_cudnn_allow_tf32",
                    "_get_cublas_allow_tf32",
                    "_get_mkldnn_enabled",
                    "_get_mkldnn_deterministic",
                    "get_autocast_dtype",
                    "get_autocast_cpu_dtype",
                    "get_autocast_gpu_dtype",
                    "_get_flash_sdp_enabled",
                    "_get_math_sdp_enabled",
                    "_get_mem_efficient_sdp_enabled",
                    "_get_cudnn_sdp_enabled",
                    "_get_overrideable_sdp_enabled",
                    "_get_sdp_priority_order",
                    "_get_nnpack_enabled",
                    "_get_float32_matmul_precision",
                    "get_num_threads",
                    "get_num_interop_threads",
                    "_cuda_isCurrentStreamCapturing",
                    "is_anomaly_enabled",
                    "is_anomaly_check_nan_enabled",
                    "_get_warnAlways",
                    "_mtia_isBuilt",
                    "_cuda_getDeviceCount",
                    "_accelerator_getAccelerator",
                ],
            ),
            (
                "torch",
                &["get_autocast_dtype", "get_num_threads", "get_num_interop_threads", "is_anomaly_enabled", "is_anomaly_check_nan_enabled"],
            ),
            ("threading", &["get_ident", "get_native_id"]),
            ("_thread", &["get_ident", "get_native_id"]),
            ("sys", &["getrecursionlimit", "getswitchinterval", "get_int_max_str_digits"]),
            ("gc", &["isenabled"]),
        ],
    },
    Row { effect: Effect::Asked, claim: OTHER_BY_FLAG, names: &[("torch._C._autograd", &["_top_saved_tensors_default_hooks"])] },
    // State that the frame must restore before it returns.
    Row {
        effect: Effect::SetsState,
        claim: SETS,
        names: &[
            (
                "torch._C",
                &[
                    "_set_grad_enabled",
                    "_set_sdp_use_flash",
                    "_set_sdp_use_math",
                    "_set_sdp_use_mem_efficient",
                    "_set_sdp_use_cudnn",
                    "_set_sdp_use_overrideable",
                    "_set_sdp_priority_order",
                    "set_autocast_enabled",
                    "set_autocast_dtype",
                    "set_autocast_cache_enabled",
                    "autocast_increment_nesting",
                    "autocast_decrement_nesting",
                    "clear_autocast_cache",
                ],
            ),
            (
                "torch",
                &[
                    "set_autocast_enabled",
                    "set_autocast_dtype",
                    "set_autocast_cache_enabled",
                    "autocast_increment_nesting",
                    "autocast_decrement_nesting",
                    "clear_autocast_cache",
                ],
            ),
        ],
    },
];
