//! Fields that were not given, and fields that were given nothing: what Go's encoder writes for them.
//!
//! A stored object is served as it is, so it is brought into the form a real server would send: empty values of fields
//! that may be left out are not there, all other fields are.

use serde_json::{Map, Value, json};

use super::{Field, Message, Shape, Ty};

/// Completes an object of a type. Its members must be finished already.
pub(crate) fn finish(message: &'static Message, object: &mut Map<String, Value>) {
    for field in message.slots {
        if let (true, Some(inner)) = (field.inline(), field.message()) {
            finish(inner, object);
            continue;
        }
        match object.get(field.json) {
            Some(value) if field.is_left_out(value) => {
                object.remove(field.json);
            }
            Some(_) => {}
            None => {
                if let Some(zero) = field.zero() {
                    object.insert(field.json.to_owned(), zero);
                }
            }
        }
    }
}

impl Field {
    /// Whether JSON shows the field only when it is not empty.
    fn is_left_out(&self, value: &Value) -> bool {
        if value.is_null() {
            return self.zero().is_none();
        }
        if self.pointer || !self.omit_empty {
            return false;
        }
        let object = matches!(self.ty, Ty::Message(_) | Ty::RawExtension | Ty::Json | Ty::FieldsV1);
        let struct_like = object || matches!(self.ty, Ty::Quantity | Ty::IntOrString);
        if self.shape == Shape::Single && struct_like {
            return false;
        }
        match value {
            Value::Null => true,
            Value::Bool(flag) => !flag,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
        }
    }

    /// What JSON shows when the field was not given.
    pub(crate) fn zero(&self) -> Option<Value> {
        if self.shape != Shape::Single || self.pointer {
            return (!self.omit_empty).then_some(Value::Null);
        }
        match self.ty {
            Ty::Message(_) | Ty::Quantity | Ty::IntOrString | Ty::Time | Ty::MicroTime | Ty::RawExtension => {
                (!self.omit_zero).then(|| self.ty.zero())
            }
            _ => (!self.omit_empty).then(|| self.ty.zero()),
        }
    }
}

impl Ty {
    /// The value of an item or member that was given as null.
    pub(crate) fn zero(self) -> Value {
        match self {
            Self::String => json!(""),
            Self::Bool => json!(false),
            Self::Int32 | Self::Int64 | Self::IntOrString | Self::Double => json!(0),
            Self::Quantity => json!("0"),
            Self::Message(message) => {
                let mut object = Map::new();
                finish(message, &mut object);
                Value::Object(object)
            }
            Self::Bytes
            | Self::Time
            | Self::MicroTime
            | Self::RawExtension
            | Self::FieldsV1
            | Self::Strings
            | Self::Json
            | Self::SchemaOrBool
            | Self::SchemaOrArray
            | Self::SchemaOrStrings
            | Self::Any => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;

    fn finished(kind: &str, object: Value) -> Value {
        let Value::Object(mut map) = object else { panic!("no object") };
        finish(of("", "v1", kind).unwrap(), &mut map);
        Value::Object(map)
    }

    #[test]
    fn what_is_not_given_is_shown_as_go_shows_it() {
        assert_eq!(finished("Service", json!({}))["status"], json!({"loadBalancer": {}}));
        assert_eq!(
            finished("Event", json!({"message": "", "count": 0})),
            json!({
                "metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null,
                "eventTime": null, "reportingComponent": "", "reportingInstance": "",
            })
        );
        assert_eq!(
            finished("ConfigMap", json!({"data": {}, "immutable": false})),
            json!({"immutable": false, "metadata": {}})
        );
    }
}
