//! Messages between peers: one message has one encoding.

use landfall_negotiate::wire::{Channel, decode, encode};

pub(crate) fn run(input: &[u8]) {
    for channel in [Channel::Gossip, Channel::Direct] {
        match decode(input, channel) {
            Ok(envelope) => assert_eq!(encode(&envelope, channel).as_deref(), Ok(input)),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
