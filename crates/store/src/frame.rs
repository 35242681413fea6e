//! Bytes on disk: a checksum in front, packed if that pays.
//!
//! ```text
//! kind (1 byte) │ checksum (16 bytes) │ payload
//! ```
//!
//! The checksum is the first half of BLAKE3 over the context, the kind and the payload. The context is what the bytes must
//! belong to (numbers of events, say), so that bytes of another place are noticed as well as changed ones.

use std::io::{BufReader, Read, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

const PLAIN: u8 = 0;
const DEFLATE: u8 = 1;
const CHECK: usize = 16;
/// Length of what stands in front of the payload.
pub(crate) const HEAD: usize = 1 + CHECK;

/// Smaller payloads are left as they are: packing would cost more than the space is worth.
const PACK_FROM: usize = 1024;

/// A checksum over a few pieces.
pub(crate) fn check(pieces: &[&[u8]]) -> [u8; CHECK] {
    #[cfg(feature = "mutations")]
    if crate::mutation::is_planted() {
        return [0; CHECK];
    }
    let mut hasher = blake3::Hasher::new();
    for piece in pieces {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece);
    }
    let mut half = [0; CHECK];
    half.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK]);
    half
}

/// Puts the payload into `out`, which is emptied first.
pub(crate) fn seal(context: &[u8], payload: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.resize(HEAD, 0);
    if payload.len() < PACK_FROM {
        out.extend_from_slice(payload);
        return finish(PLAIN, context, out);
    }
    let mut packer = packer(std::mem::take(out));
    // Writing into memory cannot fail.
    let written = packer.write_all(payload).and_then(|()| packer.finish());
    *out = written.unwrap_or_default();
    finish(DEFLATE, context, out);
}

/// A frame that is written piece by piece.
pub(crate) struct Sealing(DeflateEncoder<Vec<u8>>);

impl Sealing {
    pub(crate) fn new() -> Self {
        Self(packer(vec![0; HEAD]))
    }

    pub(crate) fn finish(self, context: &[u8]) -> std::io::Result<Vec<u8>> {
        let mut out = self.0.finish()?;
        finish(DEFLATE, context, &mut out);
        Ok(out)
    }
}

impl std::io::Write for Sealing {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.write(data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn packer(out: Vec<u8>) -> DeflateEncoder<Vec<u8>> {
    DeflateEncoder::new(out, Compression::fast())
}

fn finish(kind: u8, context: &[u8], out: &mut [u8]) {
    let (head, payload) = out.split_at_mut(HEAD);
    head[0] = kind;
    head[1..].copy_from_slice(&check(&[context, &[kind], payload]));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("it is too short")]
    Short,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it is packed in a way that this version does not know")]
    Kind,
}

/// The payload of a frame, after its checksum was compared.
pub(crate) fn open<'a>(context: &[u8], frame: &'a [u8]) -> Result<Payload<'a>, Broken> {
    let Some((head, payload)) = frame.split_at_checked(HEAD) else { return Err(Broken::Short) };
    if head[1..] != check(&[context, &head[..1], payload]) {
        return Err(Broken::Checksum);
    }
    match head[0] {
        PLAIN => Ok(Payload::Plain(payload)),
        DEFLATE => Ok(Payload::Packed(Box::new(BufReader::new(DeflateDecoder::new(payload))))),
        _ => Err(Broken::Kind),
    }
}

pub(crate) enum Payload<'a> {
    Plain(&'a [u8]),
    Packed(Box<BufReader<DeflateDecoder<&'a [u8]>>>),
}

impl Read for Payload<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(bytes) => bytes.read(into),
            Self::Packed(unpacker) => unpacker.read(into),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(context: &[u8], frame: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut bytes = Vec::new();
        open(context, frame)?.read_to_end(&mut bytes).map_err(|_| Broken::Short)?;
        Ok(bytes)
    }

    #[test]
    fn what_goes_in_comes_out_small_or_large() {
        for length in [0, 1, PACK_FROM - 1, PACK_FROM, 100_000] {
            let payload: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
            let mut frame = Vec::new();
            seal(b"here", &payload, &mut frame);
            assert_eq!(read(b"here", &frame), Ok(payload), "{length} bytes");
        }
    }

    #[test]
    fn every_changed_bit_and_every_other_place_is_noticed() {
        let mut frame = Vec::new();
        seal(b"here", b"some payload", &mut frame);
        assert_eq!(read(b"there", &frame), Err(Broken::Checksum));
        for bit in 0..frame.len() * 8 {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(b"here", &changed), Err(Broken::Checksum), "bit {bit}");
        }
        for length in 0..frame.len() {
            assert!(read(b"here", &frame[..length]).is_err(), "{length} bytes of it");
        }
    }

    #[test]
    fn piece_by_piece_gives_the_same() {
        let payload = vec![7; 5000];
        let mut sealing = Sealing::new();
        for piece in payload.chunks(11) {
            sealing.write_all(piece).unwrap();
        }
        let frame = sealing.finish(b"x").unwrap();
        assert_eq!(read(b"x", &frame), Ok(payload));
    }
}
