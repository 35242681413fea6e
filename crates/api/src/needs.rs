//! The needs of a job in the OpenAPI document, made from the list of its fields.

use std::borrow::Cow;

use landfall_model::{Kind, Needs};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// Stands for [`Needs`], which knows nothing of OpenAPI.
#[derive(Debug)]
pub struct NeedsSchema;

impl ToSchema for NeedsSchema {
    fn name() -> Cow<'static, str> {
        "Needs".into()
    }
}

impl PartialSchema for NeedsSchema {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new()
            .description(Some("What a job needs and how it wants to be treated; all of it may be left out."))
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        let with = |object: ObjectBuilder, field: &landfall_model::Field| {
            let text = format!("{} Default: {}.", field.doc, field.default);
            object.property(field.name, of(field.kind, Some(text)))
        };
        Needs::FIELDS.iter().fold(object, with).into()
    }
}

fn of(kind: Kind, text: Option<String>) -> RefOr<Schema> {
    let typed = |types: &[Type]| match types {
        [only] => ObjectBuilder::new().schema_type(SchemaType::Type(only.clone())),
        several => ObjectBuilder::new().schema_type(SchemaType::Array(several.to_vec())),
    };
    match kind {
        Kind::Text => typed(&[Type::String]).description(text).into(),
        Kind::Flag => typed(&[Type::Boolean]).description(text).into(),
        Kind::Whole => typed(&[Type::Integer]).description(text).into(),
        Kind::Number => typed(&[Type::Number]).description(text).into(),
        Kind::Amount(unit) => {
            let text = text.unwrap_or_default();
            let text = format!("{text} A number of {unit}, or text with a unit.");
            typed(&[Type::Integer, Type::String]).description(Some(text)).into()
        }
        Kind::Word(words) => {
            typed(&[Type::String]).enum_values(Some(words.iter().copied())).description(text).into()
        }
        Kind::List(item) => ArrayBuilder::new().items(of(*item, None)).description(text).into(),
        Kind::Object(fields) => {
            let any = || ObjectBuilder::new().schema_type(SchemaType::AnyValue);
            let object =
                fields.iter().fold(typed(&[Type::Object]), |object, field| object.property(*field, any()));
            object.description(text).into()
        }
        Kind::Either(plain, fields) => OneOfBuilder::new()
            .item(of(*plain, None))
            .item(of(Kind::Object(fields), None))
            .description(text)
            .into(),
    }
}
