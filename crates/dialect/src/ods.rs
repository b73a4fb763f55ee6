//! Typed builders and accessors, generated from the dialect's ODS files by the `tblgen` crate at compile time.
//!
//! `ods::dynamo::commit(context, location)` and the like. They build detached melior operations; passes that
//! rewrite in place use [`crate::ir::Builder`] instead.

#![allow(missing_docs, clippy::all, clippy::pedantic)]

melior::dialect! {
    name: "dynamo",
    files: ["dynamo/Dynamo.td"],
    include_directory_env_vars: ["DYNAMO_TD_INCLUDE"],
}
