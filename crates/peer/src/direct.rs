//! What goes to one peer: messages of the protocol, and what comes beside them (output of jobs, exit codes, invitations).
//!
//! One request is one length, one byte that says what it is, and that many bytes; the answer is the same without the byte.

use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use landfall_model::Digest;
use landfall_negotiate::Blob;
use landfall_negotiate::wire::STREAM_BYTES_MAX;
use libp2p::StreamProtocol;
use libp2p::request_response;
use serde::{Deserialize, Serialize};

pub(crate) const PROTOCOL: StreamProtocol = StreamProtocol::new("/landfall/direct/1");
/// Largest answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Something beside the protocol that a peer asks another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// A piece of what a run wrote, from an offset of the stream on: please keep it.
    Output { job: Digest, attempt: u32, stream: String, offset: u64, bytes: Blob },
    /// A run exited with this code; its result follows.
    Exit { job: Digest, attempt: u32, code: i32 },
    /// Somebody of this server gave out this secret: please trust whoever shows it.
    Invited { secret: String },
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    Done,
    /// The next piece begins at this offset.
    Next(u64),
    Refused(String),
    /// Where others are to be reached.
    Peers(Vec<String>),
}

/// What a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Asked {
    /// An envelope of the protocol, not looked at yet.
    Message(Vec<u8>),
    Aside(Question),
    /// Who else is there?
    Who,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Codec;

fn invalid(what: &'static str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what)
}

async fn read<T: AsyncRead + Unpin + Send>(io: &mut T, most: usize) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    io.read_exact(&mut length).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > most {
        return Err(invalid("larger than allowed"));
    }
    // What is not there is not made room for.
    let mut bytes = Vec::with_capacity(length.min(ANSWER_BYTES_MAX));
    io.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length { Err(invalid("ends too early")) } else { Ok(bytes) }
}

async fn write<T: AsyncWrite + Unpin + Send>(io: &mut T, parts: &[&[u8]]) -> std::io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).map_err(|_| invalid("larger than allowed"))?;
    io.write_all(&length.to_be_bytes()).await?;
    for part in parts {
        io.write_all(part).await?;
    }
    io.close().await
}

fn cbor(value: &impl Serialize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).map_err(|_| invalid("cannot be written"))?;
    Ok(bytes)
}

fn parsed<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> std::io::Result<T> {
    ciborium::from_reader(bytes).map_err(|_| invalid("no message"))
}

const MESSAGE: u8 = 0;
const ASIDE: u8 = 1;
const WHO: u8 = 2;

impl request_response::Codec for Codec {
    type Protocol = StreamProtocol;
    type Request = Asked;
    type Response = Reply;

    async fn read_request<T>(&mut self, _: &StreamProtocol, io: &mut T) -> std::io::Result<Asked>
    where
        T: AsyncRead + Unpin + Send,
    {
        let mut bytes = read(io, STREAM_BYTES_MAX + 1).await?;
        match bytes.pop() {
            Some(MESSAGE) => Ok(Asked::Message(bytes)),
            Some(ASIDE) => Ok(Asked::Aside(parsed(&bytes)?)),
            Some(WHO) if bytes.is_empty() => Ok(Asked::Who),
            _ => Err(invalid("of no known kind")),
        }
    }

    async fn read_response<T>(&mut self, _: &StreamProtocol, io: &mut T) -> std::io::Result<Reply>
    where
        T: AsyncRead + Unpin + Send,
    {
        parsed(&read(io, ANSWER_BYTES_MAX).await?)
    }

    async fn write_request<T>(&mut self, _: &StreamProtocol, io: &mut T, asked: Asked) -> std::io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        match asked {
            Asked::Message(bytes) => write(io, &[&bytes, &[MESSAGE]]).await,
            Asked::Aside(question) => write(io, &[&cbor(&question)?, &[ASIDE]]).await,
            Asked::Who => write(io, &[&[WHO]]).await,
        }
    }

    async fn write_response<T>(&mut self, _: &StreamProtocol, io: &mut T, reply: Reply) -> std::io::Result<()>
    where
        T: AsyncWrite + Unpin + Send,
    {
        write(io, &[&cbor(&reply)?]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use futures::io::Cursor;
    use libp2p::request_response::Codec as _;

    fn through(asked: Asked) -> std::io::Result<Asked> {
        let mut bytes = Cursor::new(Vec::new());
        block_on(Codec.write_request(&PROTOCOL, &mut bytes, asked))?;
        block_on(Codec.read_request(&PROTOCOL, &mut Cursor::new(bytes.into_inner())))
    }

    #[test]
    fn what_is_written_is_read() {
        let job = Digest([3; 32]);
        let stream = "stdout".to_owned();
        let piece =
            Question::Output { job, attempt: 2, stream, offset: 7, bytes: Blob::new(vec![200; 70_000]) };
        for asked in
            [Asked::Message(vec![1, 2, 3]), Asked::Message(Vec::new()), Asked::Aside(piece), Asked::Who]
        {
            assert_eq!(through(asked.clone()).unwrap(), asked);
        }
    }

    #[test]
    fn damage_is_an_error_and_costs_no_memory() {
        let read = |bytes: &[u8]| block_on(Codec.read_request(&PROTOCOL, &mut Cursor::new(bytes.to_vec())));
        for bytes in [
            &b""[..],
            b"\0\0",
            b"\0\0\0\0",
            b"\xff\xff\xff\xff",
            b"\0\xff\xff\xff short",
            b"\0\0\0\x02\x00\x09",
            b"\0\0\0\x03\xff\xff\x01",
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
