//! A long answer, line by line.

use std::pin::Pin;

use futures::{Stream, StreamExt as _};

use crate::error::ClientError;

/// A longer line is not one of ours.
const LINE_BYTES_MAX: usize = 64 << 20;

type Chunks<C> = Pin<Box<dyn Stream<Item = Result<C, ClientError>> + Send>>;

/// A long answer, line by line. Dropping it ends the request.
pub struct Lines<C = Vec<u8>> {
    url: String,
    chunks: Chunks<C>,
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that hold no end of a line.
    seen: usize,
    over: bool,
}

impl<C: AsRef<[u8]>> Lines<C> {
    pub(crate) fn new(url: String, chunks: Chunks<C>) -> Self {
        Self { url, chunks, buffer: Vec::new(), seen: 0, over: false }
    }

    /// The next line without its end; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<String>, ClientError> {
        loop {
            if let Some(at) = self.buffer[self.seen..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(self.seen + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.seen = 0;
                line.pop();
                return self.text(line).map(Some);
            }
            self.seen = self.buffer.len();
            if self.over {
                self.seen = 0;
                let line = std::mem::take(&mut self.buffer);
                return if line.is_empty() { Ok(None) } else { self.text(line).map(Some) };
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(self.bad("a line without end"));
            }
            match self.chunks.next().await {
                Some(chunk) => self.buffer.extend_from_slice(chunk?.as_ref()),
                None => self.over = true,
            }
        }
    }

    fn text(&self, mut line: Vec<u8>) -> Result<String, ClientError> {
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).map_err(|_| self.bad("a line that is not UTF-8 text"))
    }

    pub(crate) fn bad(&self, message: &str) -> ClientError {
        ClientError::BadAnswer { url: self.url.clone(), message: message.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&str]) -> Lines {
        let chunks: Vec<Result<Vec<u8>, ClientError>> =
            chunks.iter().map(|chunk| Ok(chunk.as_bytes().to_vec())).collect();
        Lines::new("test".into(), Box::pin(futures::stream::iter(chunks)))
    }

    async fn all(mut lines: Lines) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_how_they_arrive() {
        let expected = ["{\"a\":1}", "", "héllo", "last"];
        for chunks in [
            &["{\"a\":1}\n\nhéllo\nlast"][..],
            &["{\"a\"", ":1}\n", "\nhé", "llo\r\nla", "st"],
            &["{\"a\":1}", "\n\nhéllo\n", "", "last\n"],
        ] {
            assert_eq!(all(lines(chunks)).await, expected, "{chunks:?}");
        }
    }

    #[tokio::test]
    async fn no_chunks_are_no_lines() {
        assert!(all(lines(&[])).await.is_empty());
    }
}
