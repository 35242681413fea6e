//! Messages as bytes: canonical CBOR (RFC 8949, section 4.2.1): map keys in the order of their encodings, the shortest
//! form of every number, definite lengths. There is one encoding per message; anything else is malformed.

use ciborium::Value;
use landfall_model::NodeId;
use serde::{Deserialize, Serialize};

use crate::message::Message;

/// The version spoken here.
pub const VERSION: u64 = 1;
/// Largest message on a topic.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Largest message on a direct stream, where bodies travel.
pub const STREAM_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest body that travels inside a request.
pub const INLINE_BYTES_MAX: usize = 32 * 1024;

/// A message with its address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub v: u64,
    /// Whom it is for; nobody means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<NodeId>,
    pub message: Message,
}

impl Envelope {
    pub const fn to_all(message: Message) -> Self {
        Self { v: VERSION, to: None, message }
    }

    /// A message for one peer.
    pub const fn to_one(to: NodeId, message: Message) -> Self {
        Self { v: VERSION, to: Some(to), message }
    }
}

/// Why bytes are dropped before the machine sees them.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum WireError {
    /// More bytes than a message may have.
    #[error("the message is larger than allowed")]
    Oversize,
    /// A version that is not spoken here.
    #[error("the message has an unknown version")]
    UnknownVersion,
    /// No message, or not in its one encoding.
    #[error("the bytes are no message")]
    Malformed,
    /// A body that did not come by direct stream.
    #[error("a body travels by direct stream only")]
    NotDirect,
}

/// How bytes came or will go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// A topic that all peers read.
    Gossip,
    /// A stream between two peers.
    Direct,
}

impl Channel {
    const fn bytes_max(self, message: &Message) -> usize {
        match (self, message) {
            (Self::Direct, Message::Body { .. }) => STREAM_BYTES_MAX,
            _ => MESSAGE_BYTES_MAX,
        }
    }
}

/// The one encoding of a value.
pub fn canonical<T: Serialize>(value: &T) -> Result<Vec<u8>, WireError> {
    let value = Value::serialized(value).map_err(|_| WireError::Malformed)?;
    bytes_of(&sorted(value)?)
}

pub fn encode(envelope: &Envelope, channel: Channel) -> Result<Vec<u8>, WireError> {
    if channel == Channel::Gossip && is_direct_only(&envelope.message) {
        return Err(WireError::NotDirect);
    }
    let bytes = canonical(envelope)?;
    if bytes.len() > channel.bytes_max(&envelope.message) { Err(WireError::Oversize) } else { Ok(bytes) }
}

pub fn decode(bytes: &[u8], channel: Channel) -> Result<Envelope, WireError> {
    let limit = if channel == Channel::Direct { STREAM_BYTES_MAX } else { MESSAGE_BYTES_MAX };
    if bytes.len() > limit {
        return Err(WireError::Oversize);
    }
    let mut rest = bytes;
    let value: Value = ciborium::from_reader(&mut rest).map_err(|_| WireError::Malformed)?;
    if !rest.is_empty() {
        return Err(WireError::Malformed);
    }
    let version = value.as_map().and_then(|map| {
        let found = map.iter().find(|(key, _)| key.as_text() == Some("v"))?;
        found.1.as_integer().and_then(|version| u64::try_from(version).ok())
    });
    match version {
        None => return Err(WireError::Malformed),
        Some(VERSION) => {}
        Some(_) => return Err(WireError::UnknownVersion),
    }
    let envelope: Envelope = value.deserialized().map_err(|_| WireError::Malformed)?;
    if channel == Channel::Gossip && is_direct_only(&envelope.message) {
        return Err(WireError::NotDirect);
    }
    if bytes.len() > channel.bytes_max(&envelope.message) {
        return Err(WireError::Oversize);
    }
    // One message has one encoding: what reads alike but is written otherwise would break digests and signatures.
    if canonical(&envelope)? == bytes { Ok(envelope) } else { Err(WireError::Malformed) }
}

const fn is_direct_only(message: &Message) -> bool {
    matches!(message, Message::Body { .. } | Message::BodyRequest { .. })
}

fn bytes_of(value: &Value) -> Result<Vec<u8>, WireError> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).map_err(|_| WireError::Malformed)?;
    Ok(bytes)
}

/// Sorts the keys of every map by their encodings.
fn sorted(value: Value) -> Result<Value, WireError> {
    Ok(match value {
        Value::Map(entries) => {
            let mut keyed = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                keyed.push((bytes_of(&key)?, key, sorted(value)?));
            }
            keyed.sort_by(|a, b| a.0.cmp(&b.0));
            if keyed.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return Err(WireError::Malformed);
            }
            Value::Map(keyed.into_iter().map(|(_, key, value)| (key, value)).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect::<Result<_, _>>()?),
        Value::Tag(tag, inner) => Value::Tag(tag, Box::new(sorted(*inner)?)),
        plain => plain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_model::Digest;

    fn message() -> Envelope {
        Envelope::to_all(Message::BodyRequest { digest: Digest([7; 32]) })
    }

    #[test]
    fn keys_are_in_the_order_of_their_encodings() {
        let value = Value::Map(vec![
            (Value::from("bb"), Value::from(1)),
            (Value::from("c"), Value::from(1000)),
            (Value::from(10), Value::from(2)),
            (Value::from(-1), Value::from(3)),
        ]);
        // 10, -1, "c", "bb": 0x0a, 0x20, 0x61.., 0x62..
        let want = [0xa4, 0x0a, 2, 0x20, 3, 0x61, b'c', 0x19, 0x03, 0xe8, 0x62, b'b', b'b', 1];
        assert_eq!(bytes_of(&sorted(value).unwrap()).unwrap(), want);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let bytes = encode(&message(), Channel::Direct).unwrap();
        assert_eq!(decode(&bytes, Channel::Direct), Ok(message()));
        assert_eq!(decode(&bytes, Channel::Gossip), Err(WireError::NotDirect));
        assert_eq!(decode(&bytes[..bytes.len() - 1], Channel::Direct), Err(WireError::Malformed));
        assert_eq!(decode(&[bytes.as_slice(), &[0]].concat(), Channel::Direct), Err(WireError::Malformed));
        assert_eq!(decode(&vec![0; MESSAGE_BYTES_MAX + 1], Channel::Gossip), Err(WireError::Oversize));
        let other = canonical(&Envelope { v: 2, ..message() }).unwrap();
        assert_eq!(decode(&other, Channel::Direct), Err(WireError::UnknownVersion));
    }

    #[test]
    fn another_encoding_of_the_same_message_is_malformed() {
        let value = Value::serialized(&message()).unwrap();
        let Value::Map(mut entries) = sorted(value).unwrap() else { panic!("a map") };
        entries.reverse();
        let bytes = bytes_of(&Value::Map(entries)).unwrap();
        assert_eq!(decode(&bytes, Channel::Direct), Err(WireError::Malformed));
    }

    #[test]
    fn an_inline_body_costs_its_bytes_only() {
        let blob = crate::blob::Blob::new(vec![200; INLINE_BYTES_MAX]);
        assert!(canonical(&blob).unwrap().len() <= INLINE_BYTES_MAX + 3);
    }
}
