//! Byte offsets of fields that are the same in all supported versions. The others are in the tables of `layout`. None of them are valid
//! without the global interpreter lock: code without a [`crate::Abi`] must check for it.

/// `PyFunctionObject.func_globals`
pub const FUNCTION_GLOBALS: usize = 16;
/// `PyFunctionObject.func_builtins`
pub const FUNCTION_BUILTINS: usize = 24;
/// `PyFunctionObject.func_code`
pub const FUNCTION_CODE: usize = 48;
/// `PyFunctionObject.func_defaults`
pub const FUNCTION_DEFAULTS: usize = 56;
/// `PyFunctionObject.func_kwdefaults`
pub const FUNCTION_KWDEFAULTS: usize = 64;
/// `PyFunctionObject.func_closure`
pub const FUNCTION_CLOSURE: usize = 72;
/// `PyFunctionObject.func_annotations`
pub const FUNCTION_ANNOTATIONS: usize = 112;
/// `PyCellObject.ob_ref`
pub const CELL_CONTENT: usize = 16;
/// `PyMethodObject.im_func`
pub const METHOD_FUNCTION: usize = 16;
/// `PyMethodObject.im_self`
pub const METHOD_SELF: usize = 24;
/// `_PyDictViewObject.dv_dict`, and `mappingproxyobject.mapping`
pub const VIEWED: usize = 16;
/// `ob_type`
pub const TYPE: usize = 8;
/// `ob_size`
pub const SIZE: usize = 16;
/// `PyListObject.ob_item`: the address of the items.
pub const LIST_ITEMS: usize = 24;
/// `PyTypeObject.tp_name`
pub const TYPE_NAME: usize = 24;
/// `PyTypeObject.tp_dictoffset`
pub const TYPE_DICT_OFFSET: usize = 288;
/// `PyMemberDescrObject.d_member`, then `PyMemberDef.offset`.
pub const MEMBER: usize = 40;
/// See [`MEMBER`].
pub const MEMBER_OFFSET: usize = 16;
/// The word before an object that holds its managed instance dict.
pub const MANAGED_DICT: isize = -24;
/// The word before that one: attribute values while there is no dict (3.11).
pub const MANAGED_VALUES: isize = -32;
/// `PyDictObject.ma_used`: the number of items.
pub const DICT_ITEMS: usize = 16;
/// `PyDictObject.ma_keys`
pub const DICT_KEYS: usize = 32;
/// `PyDictObject.ma_values`: the values of a dict that shares its name table with others; otherwise NULL.
pub const DICT_VALUES: usize = 40;
/// `PyTypeObject.tp_basicsize`
pub const TYPE_BASIC_SIZE: usize = 32;
/// `PyDictKeysObject.dk_log2_index_bytes`: a byte.
pub const KEYS_LOG2_INDEX_BYTES: usize = 9;
/// The word that contains `PyDictKeysObject.dk_log2_size`, other sizes, the kind, and the version of tables that have one.
pub const KEYS_SIZES: usize = 8;
/// `PyDictKeysObject.dk_version`: 32 bits, 0 if the table does not have a version. Different in 3.11.
pub const KEYS_VERSION: usize = 12;
/// `PyDictKeysObject.dk_kind`: a byte; 1 and 2 are tables of exact strings only.
pub const KEYS_KIND: usize = 10;
/// `PyDictKeysObject.dk_nentries`
pub const KEYS_ENTRIES: usize = 24;
/// `PyDictKeysObject.dk_indices`: the index, followed by the entries.
pub const KEYS_INDEX: usize = 32;
/// `PySetObject.fill`
pub const SET_FILL: usize = 16;
/// `PySetObject.used`
pub const SET_USED: usize = 24;
/// `PySetObject.mask`: one less than the number of entries.
pub const SET_MASK: usize = 32;
/// `PySetObject.table`: the address of the entries, each a key and its hash.
pub const SET_TABLE: usize = 40;
/// `PySetObject.smalltable`: the entries of a small set.
pub const SET_SMALL_TABLE: usize = 64;
