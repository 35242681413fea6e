//! The key of a peer: made at its first start, kept in a file that only its owner can read.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use landfall_model::NodeId;
use libp2p::PeerId;
use libp2p::identity::Keypair;

/// The file in the data directory.
const FILE: &str = "peer.key";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot use {}: {source}", .path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} is no key of a peer: {why}", .path.display())]
    Unreadable { path: PathBuf, why: String },
}

/// A key pair and the id that follows from it.
#[derive(Clone)]
pub struct Identity {
    pub(crate) key: Keypair,
    id: NodeId,
}

impl std::fmt::Debug for Identity {
    /// The key itself is nobody's business.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Identity").field(&self.id).finish()
    }
}

/// The id of a peer as the protocol writes it.
pub(crate) fn id_of(peer: &PeerId) -> NodeId {
    NodeId::new(&peer.to_base58()).unwrap_or_else(|_| unreachable!("52 letters and digits are an id"))
}

/// The id of a peer as somebody wrote it, if it is one.
pub fn peer_id(text: &str) -> Option<NodeId> {
    text.parse::<PeerId>().ok().map(|peer| id_of(&peer))
}

/// Writes a file that only its owner can read, as a whole or not at all.
pub fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("new");
    let _ = std::fs::remove_file(&draft);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(bytes).and_then(|()| file.sync_all())?;
    std::fs::rename(&draft, path)
}

impl Identity {
    /// The key in a data directory, made if there is none.
    pub fn load_or_make(data_dir: &Path) -> Result<Self, KeyError> {
        match Self::load(data_dir)? {
            Some(known) => Ok(known),
            None => Self::make(data_dir),
        }
    }

    /// The key in a data directory, if there is one.
    pub fn load(data_dir: &Path) -> Result<Option<Self>, KeyError> {
        let path = data_dir.join(FILE);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(KeyError::Io { path, source }),
        };
        match Keypair::from_protobuf_encoding(&bytes) {
            Ok(key) => Ok(Some(Self::of(key))),
            Err(error) => Err(KeyError::Unreadable { path, why: error.to_string() }),
        }
    }

    fn make(data_dir: &Path) -> Result<Self, KeyError> {
        let path = data_dir.join(FILE);
        let key = Keypair::generate_ed25519();
        let encoded = key.to_protobuf_encoding();
        let bytes =
            encoded.map_err(|error| KeyError::Unreadable { path: path.clone(), why: error.to_string() })?;
        write_private(&path, &bytes).map_err(|source| KeyError::Io { path, source })?;
        Ok(Self::of(key))
    }

    fn of(key: Keypair) -> Self {
        let id = id_of(&key.public().to_peer_id());
        Self { key, id }
    }

    pub const fn id(&self) -> &NodeId {
        &self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Identity::load(dir.path()).unwrap().is_none());
        let made = Identity::load_or_make(dir.path()).unwrap();
        assert_eq!(Identity::load_or_make(dir.path()).unwrap().id(), made.id());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_damaged_key_is_named_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), b"nonsense").unwrap();
        let error = Identity::load_or_make(dir.path()).unwrap_err();
        assert!(error.to_string().contains("peer.key"), "{error}");
        assert_eq!(std::fs::read(dir.path().join(FILE)).unwrap(), b"nonsense");
    }
}
