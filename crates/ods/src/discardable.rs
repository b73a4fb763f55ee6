//! Discardable attributes: those that the dialect puts on operations of other dialects.

use tblgen::{Record, TypedInit};

use crate::{Error, attribute::Kind};

/// Writes a constant for each.
pub fn write(dialect: Record<'_>) -> Result<String, Error> {
    let name = dialect.str_value("name")?;
    let mut source = String::new();
    let attributes = dialect.dag_value("discardableAttrs")?;
    for index in 0..attributes.num_args() {
        let key = attributes.name(index).unwrap_or_default();
        let class = match attributes.get(index) {
            Some(TypedInit::String(class) | TypedInit::Code(class)) => class.to_str().unwrap_or_default().to_owned(),
            _ => return Err(Error::Unknown { definition: format!("{name}.{key}"), what: "expected the class of an attribute".into() }),
        };
        let kind = Kind::of_class(&format!("{name}.{key}"), &class)?;
        source += &format!(
            "\n/// `{name}.{key}`\npub const {}: Discardable<{}> = Discardable::new(\"{name}.{key}\");\n",
            key.to_uppercase(),
            kind.value
        );
    }
    Ok(source)
}
