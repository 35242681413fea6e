//! Where a trace's bytes come from: a file, plain or gzip, read as a stream and hashed on the way.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};

/// Large blocks: hashing and unpacking are fastest on them.
const BLOCK_BYTES: usize = 128 * 1024;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How many times its size a file may unpack to. Traces, which are lines that differ, come to some tens at most; a file of a
/// megabyte that is made to fill the memory comes to a thousand.
const UNPACKED_TIMES_MAX: u64 = 200;
/// Up to so much nobody counts.
const UNPACKED_BYTES_FREE: u64 = 32 << 20;

/// A stream of a trace's text. Gzip is recognised by its first bytes, whatever the file is called.
pub struct Source {
    stream: Stream,
    gzip: bool,
}

enum Stream {
    Plain(BufReader<Hashing>),
    Gzip(Box<BufReader<Unpacking>>),
}

pub fn open(path: &Path) -> io::Result<Source> {
    Source::new(File::open(path)?)
}

impl Source {
    /// Reads from anything.
    pub fn new(mut reader: impl Read + Send + 'static) -> io::Result<Self> {
        let mut first = Vec::with_capacity(GZIP_MAGIC.len());
        reader.by_ref().take(GZIP_MAGIC.len() as u64).read_to_end(&mut first)?;
        let gzip = first == GZIP_MAGIC;
        let reader =
            Hashing { reader: Box::new(Cursor::new(first).chain(reader)), sha256: Sha256::new(), count: 0 };
        let raw = BufReader::with_capacity(BLOCK_BYTES, reader);
        let stream = if gzip {
            let unpacking = Unpacking { decoder: MultiGzDecoder::new(raw), count: 0 };
            Stream::Gzip(Box::new(BufReader::with_capacity(BLOCK_BYTES, unpacking)))
        } else {
            Stream::Plain(raw)
        };
        Ok(Self { stream, gzip })
    }

    /// Whether the file is compressed.
    pub fn is_gzip(&self) -> bool {
        self.gzip
    }

    /// Reads whatever is left and gives the SHA-256 of the file's own bytes (compressed, if it is compressed), as hex.
    pub fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        let mut raw = match self.stream {
            Stream::Plain(raw) => raw,
            Stream::Gzip(unpacked) => unpacked.into_inner().decoder.into_inner(),
        };
        io::copy(&mut raw, &mut io::sink())?;
        Ok(hex(&raw.into_inner().sha256.finalize()))
    }
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.read(into),
            Stream::Gzip(stream) => stream.read(into),
        }
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.fill_buf(),
            Stream::Gzip(stream) => stream.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        match &mut self.stream {
            Stream::Plain(stream) => stream.consume(amount),
            Stream::Gzip(stream) => stream.consume(amount),
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("gzip", &self.gzip).finish_non_exhaustive()
    }
}

/// What is unpacked, within reason.
struct Unpacking {
    decoder: MultiGzDecoder<BufReader<Hashing>>,
    count: u64,
}

impl Read for Unpacking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(into)?;
        self.count += count as u64;
        let packed = self.decoder.get_ref().get_ref().count;
        if self.count > UNPACKED_BYTES_FREE && self.count / UNPACKED_TIMES_MAX > packed {
            let message =
                format!("it unpacks to more than {UNPACKED_TIMES_MAX} times its size, which no trace does");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(count)
    }
}

struct Hashing {
    reader: Box<dyn Read + Send>,
    sha256: Sha256,
    count: u64,
}

impl Read for Hashing {
    /// Fills the block as far as it can: whoever looks at the first block wants more than the bytes that told gzip.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < into.len() {
            match self.reader.read(&mut into[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if count == 0 => return Err(error),
                // What was read is given first; the next call meets the error again.
                Err(_) => break,
            }
        }
        self.sha256.update(&into[..count]);
        self.count += count as u64;
        Ok(count)
    }
}

/// Bytes as lower-case hex.
/// The SHA-256 of bytes, as hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn zipped(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read_all(bytes: &[u8]) -> (String, bool, String) {
        let mut source = Source::new(Cursor::new(bytes.to_vec())).unwrap();
        let mut text = String::new();
        source.read_to_string(&mut text).unwrap();
        (text, source.is_gzip(), source.finish().unwrap())
    }

    #[test]
    fn plain_and_gzip_give_the_same_text_and_the_hash_of_their_own_bytes() {
        // The known SHA-256 of "abc".
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(read_all(b"abc"), ("abc".to_owned(), false, abc.to_owned()));
        let packed = zipped("abc");
        let (text, gzip, hash) = read_all(&packed);
        assert_eq!((text.as_str(), gzip), ("abc", true));
        assert_eq!(hash, hex(&Sha256::digest(&packed)));
    }

    #[test]
    fn the_first_look_shows_the_first_line() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,2,3,4\n";
        for bytes in [text.as_bytes().to_vec(), zipped(text)] {
            let mut source = Source::new(Cursor::new(bytes)).unwrap();
            assert_eq!(source.fill_buf().unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn members_that_were_appended_are_read_too() {
        let packed = [zipped("one\n"), zipped("two\n")].concat();
        assert_eq!(read_all(&packed).0, "one\ntwo\n");
    }

    #[test]
    fn empty_and_one_byte_files_are_plain() {
        assert_eq!(read_all(b"").0, "");
        assert!(!read_all(b"\x1f").1);
    }

    #[test]
    fn a_cut_gzip_file_is_an_error() {
        let packed = zipped(&"a line of text\n".repeat(100));
        let mut source = Source::new(Cursor::new(packed[..packed.len() / 2].to_vec())).unwrap();
        assert!(source.read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn a_small_file_that_unpacks_to_anything_is_refused_early() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let line = b";\n".repeat(1 << 19);
        (0..64).for_each(|_| encoder.write_all(&line).unwrap());
        let packed = encoder.finish().unwrap();
        assert!(packed.len() < 100_000, "{}", packed.len());
        let mut source = Source::new(Cursor::new(packed)).unwrap();
        let mut text = Vec::new();
        let error = source.read_to_end(&mut text).unwrap_err();
        assert!(error.to_string().contains("200 times its size"), "{error}");
        assert!((text.len() as u64) < 2 * UNPACKED_BYTES_FREE, "{}", text.len());
    }

    #[test]
    fn the_hash_covers_what_nobody_read() {
        let source = Source::new(Cursor::new(b"abc".to_vec())).unwrap();
        let all = read_all(b"abc").2;
        assert_eq!(source.finish().unwrap(), all);
    }
}
