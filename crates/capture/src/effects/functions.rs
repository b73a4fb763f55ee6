//! C functions that may be called while capturing, each with what is claimed of it. What is not here ends the capture.

use super::{
    Effect,
    claim::{ASKS_FOR_CALL, Claim, FOLDS, GUARDED, Keeps, LAZY, NUMBERS, OTHER, OTHER_BY_FLAG, SETS, TAKES, TEXTS, WALKS, Writes},
};

/// Functions by module: name of the module, then of the functions or types.
pub(super) type Names = &'static [(&'static str, &'static [&'static str])];

/// A group of functions of which the same holds.
pub(super) struct Row {
    pub effect: Effect,
    pub claim: Claim,
    pub names: Names,
}

pub(super) const FUNCTIONS: &[Row] = &[
    // Calls the slots by which an object is a number. An exact int, float or complex is returned as it is.
    Row {
        effect: Effect::Pure,
        claim: NUMBERS,
        names: &[
            ("builtins", &["abs", "bin", "bool", "chr", "complex", "divmod", "float", "hex", "int", "oct", "ord", "pow", "range", "round"]),
            ("operator", &["index", "length_hint"]),
        ],
    },
    // As those, through C doubles; nothing of the arguments is in the result.
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
    // Steps the iterables, and adds or multiplies.
    Row { effect: Effect::Pure, claim: FOLDS, names: &[("math", &["dist", "fsum", "prod"])] },
    // Text and bytes of objects. An exact str or bytes is returned as it is.
    Row { effect: Effect::Pure, claim: TEXTS, names: &[("builtins", &["ascii", "bytes", "bytearray", "format", "repr", "str"])] },
    // Steps the iterables at once; elements are in the result. `key=` and `object_hook` are functions.
    Row {
        effect: Effect::Pure,
        claim: WALKS,
        names: &[
            ("builtins", &["all", "any", "dict", "frozendict", "frozenset", "list", "max", "min", "set", "sorted", "tuple"]),
            ("collections", &["OrderedDict", "deque", "defaultdict"]),
            ("functools", &["reduce"]),
            ("torch._C", &["_fx_map_aggregate", "_fx_map_arg"]),
        ],
    },
    // Steps the iterables later.
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
                    "groupby",
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
    // Holds what it is given, to be looked at when the result is used: those uses are calls of their own.
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
    // Copies `__doc__` and `__wrapped__` of what it is given.
    Row { effect: Effect::Pure, claim: TAKES, names: &[("builtins", &["classmethod", "property", "staticmethod"])] },
    // Refers to its argument weakly: that is seen by `weakref.getweakrefcount` alone, which is not in the table.
    Row { effect: Effect::Pure, claim: TAKES, names: &[("_weakref", &["ref"])] },
    // Makes a class: the metaclass, `__set_name__` and `__init_subclass__` are Python or in the table themselves. The bases' `__subclasses__`
    // list it weakly.
    Row { effect: Effect::Pure, claim: WALKS, names: &[("builtins", &["__build_class__"])] },
    // A tuple of sizes, of what iterates.
    Row { effect: Effect::Pure, claim: FOLDS, names: &[("torch", &["Size"])] },
    // Makes one of torch's values from numbers and names, or tells what a value is.
    Row {
        effect: Effect::Pure,
        claim: NUMBERS,
        names: &[("torch", &["device", "dtype", "finfo", "iinfo", "is_tensor", "memory_format", "layout"])],
    },
    // Steps its argument, and looks for `__torch_function__` on types.
    Row { effect: Effect::Pure, claim: FOLDS, names: &[("torch._C", &["_has_torch_function"])] },
    // Looks for `__torch_function__` on types; tells the name of a backend, which is set once; gives back its argument.
    // Torch 2.11 has `Function.apply` in Python, which calls `unwrap_if_dead` on each argument.
    Row {
        effect: Effect::Pure,
        claim: TAKES,
        names: &[
            ("torch._C", &["_has_torch_function_unary", "_has_torch_function_variadic", "_get_privateuse1_backend_name"]),
            ("torch._C._functorch", &["unwrap_if_dead", "is_batchedtensor"]),
        ],
    },
    // Compares dtypes, by a table.
    Row { effect: Effect::Outside, claim: Claim { keeps: Keeps::Nothing, ..TAKES }, names: &[("torch", &["promote_types", "can_cast"])] },
    // Notes in a class which of its methods are abstract.
    Row { effect: Effect::MutatesFirst, claim: Claim { writes: Writes::First, ..WALKS }, names: &[("_abc", &["_abc_init"])] },
    // Counts what it is given in a dict.
    Row {
        effect: Effect::MutatesFirst,
        claim: Claim { writes: Writes::First, keeps: Keeps::First, ..WALKS },
        names: &[("_collections", &["_count_elements"])],
    },
    // Look at nothing but what they are given, where that is data: else they may call back, or compare.
    Row {
        effect: Effect::Data,
        claim: TAKES,
        names: &[("posix", &["fspath"]), ("sys", &["intern"]), ("_bisect", &["bisect_left", "bisect_right"])],
    },
    // What the guard of torch's state covers. A transform is seen in the thread's dispatch keys.
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
    // What has no other guard than the question itself. A dtype that is set where autocast is off is not in the guarded state.
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
    // What the frame must set back before it returns.
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
