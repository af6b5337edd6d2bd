//! Detached signatures: `FILE.sig` beside a `.dala` file says who made it (`docs/format.md`).
//!
//! Signed is the header of the container, which holds the hash of every tensor: one signature over the beginning of a
//! file vouches for all of it, and tensors are still checked when they are first used.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::error::{Error, Result};

/// Bytes of a private key, and of a public one.
pub const KEY_BYTES: usize = 32;

/// Bytes of a `FILE.sig`: [`MAGIC`], the signer's public key, the signature.
pub const SIGNATURE_BYTES: usize = 8 + KEY_BYTES + 64;

/// The first bytes of a `FILE.sig`; the last one is the version.
pub const MAGIC: [u8; 8] = *b"DALASIG\x01";

/// Stands before the signed bytes, so that no signature made for something else counts here.
const DOMAIN: &[u8] = b"dala container header, signature version 1\0";

/// A private key: the seed of RFC 8032.
pub type PrivateKey = [u8; KEY_BYTES];

/// A public key.
pub type PublicKey = [u8; KEY_BYTES];

/// A private key from the randomness of the operating system.
pub fn generate() -> Result<PrivateKey> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key)
        .map_err(|e| Error::io(format!("the system gives no random bytes: {e}")))?;
    Ok(key)
}

/// The public key that belongs to a private one.
pub fn public_key(private: &PrivateKey) -> PublicKey {
    SigningKey::from_bytes(private).verifying_key().to_bytes()
}

/// The content of `FILE.sig` for a file whose length prefix and header are `signed`.
pub fn sign(private: &PrivateKey, signed: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let key = SigningKey::from_bytes(private);
    let mut out = [0; SIGNATURE_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..40].copy_from_slice(key.verifying_key().as_bytes());
    out[40..].copy_from_slice(&key.sign(&message(signed)).to_bytes());
    out
}

/// Checks the content of a `FILE.sig` against the length prefix and header of a file, and gives the signer. Where
/// `trusted` is not empty, the signer must be one of these.
pub fn verify(signature: &[u8], signed: &[u8], trusted: &[PublicKey]) -> Result<PublicKey> {
    let Some((head, rest)) = signature
        .split_first_chunk::<8>()
        .filter(|_| signature.len() == SIGNATURE_BYTES)
    else {
        return Err(refused(format!(
            "the signature has {} bytes instead of {SIGNATURE_BYTES}",
            signature.len()
        )));
    };
    if *head != MAGIC {
        return Err(refused("the signature is not one of Dala, version 1"));
    }
    let (Some((key, _)), Some((_, bytes))) =
        (rest.split_first_chunk(), rest.split_last_chunk::<64>())
    else {
        return Err(refused("the signature is cut"));
    };
    if !trusted.is_empty() && !trusted.contains(key) {
        return Err(
            Error::invalid_file("the file is signed by a key that is not trusted")
                .with_code("signature-key")
                .with("signer", hex(key)),
        );
    }
    // Strict: a key of small order, with which one signature fits many messages, is refused.
    VerifyingKey::from_bytes(key)
        .and_then(|k| k.verify_strict(&message(signed), &Signature::from_bytes(bytes)))
        .map_err(|_| {
            refused("the signature does not belong to this file: one of them was changed")
                .with("signer", hex(key))
        })?;
    Ok(*key)
}

/// The error for a file without a signature where one is demanded.
pub fn missing() -> Error {
    Error::invalid_file("the file has no signature, and one by a trusted key is demanded")
        .with_code("signature-missing")
}

/// Where the signature of a file lies.
pub fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".sig");
    PathBuf::from(name)
}

/// Reads the signature beside a file; `None` when there is no such file. One that is there and cannot be read is an
/// error: otherwise whoever can damage it could take the signature away.
pub fn read_beside(path: &Path) -> Result<Option<Vec<u8>>> {
    let path = beside(path);
    let fail = |e: std::io::Error| Error::io(format!("{}: {e}", path.display()));
    match std::fs::metadata(&path) {
        // Opening a pipe would wait for somebody to write to it.
        Ok(found) if !found.is_file() => {
            return Err(Error::io(format!("{}: not a file", path.display())));
        }
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => {
            // A link that leads nowhere is there, all the same.
            return match std::fs::symlink_metadata(&path) {
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
                _ => Err(fail(e)),
            };
        }
        // No file has a name that is too long.
        Err(e) if e.kind() == ErrorKind::InvalidFilename => return Ok(None),
        Err(e) => return Err(fail(e)),
    }
    let mut bytes = Vec::new();
    let most = SIGNATURE_BYTES as u64 + 1;
    let file = File::open(&path).map_err(fail)?;
    file.take(most).read_to_end(&mut bytes).map_err(fail)?;
    Ok(Some(bytes))
}

fn message(signed: &[u8]) -> Vec<u8> {
    [DOMAIN, signed].concat()
}

fn refused(message: impl Into<String>) -> Error {
    Error::invalid_file(message).with_code("signature")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(text: &str) -> [u8; N] {
        let list: Vec<u8> = (0..text.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
            .collect();
        list.try_into().unwrap()
    }

    /// RFC 8032, section 7.1: private key, public key, message, signature.
    const VECTORS: [[&str; 4]; 4] = [
        [
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ],
        [
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ],
        [
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ],
        [
            "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
            "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
        ],
    ];

    #[test]
    fn test_the_primitive_is_that_of_rfc_8032() {
        for [private, public, message, signature] in VECTORS {
            let private: PrivateKey = bytes(private);
            assert_eq!(public_key(&private), bytes::<32>(public));
            let message: Vec<u8> = match message.len() {
                0 => Vec::new(),
                2 => bytes::<1>(message).to_vec(),
                4 => bytes::<2>(message).to_vec(),
                _ => bytes::<64>(message).to_vec(),
            };
            let made = SigningKey::from_bytes(&private).sign(&message).to_bytes();
            assert_eq!(made, bytes::<64>(signature));
        }
    }

    #[test]
    fn test_what_was_signed_verifies_and_nothing_else_does() {
        let (key, other) = (generate().unwrap(), generate().unwrap());
        assert_ne!(key, other);
        let header = b"\x05\0\0\0\0\0\0\0hello".to_vec();
        let signature = sign(&key, &header);
        let signer = public_key(&key);
        assert_eq!(verify(&signature, &header, &[]).unwrap(), signer);
        let both = [public_key(&other), signer];
        assert_eq!(verify(&signature, &header, &both).unwrap(), signer);
        let error = verify(&signature, &header, &both[..1]).unwrap_err();
        assert_eq!(error.code, "signature-key");
        for at in 0..signature.len() {
            for bit in 0..8 {
                let mut bad = signature;
                bad[at] ^= 1 << bit;
                let error = verify(&bad, &header, &[]).unwrap_err();
                assert_eq!(error.code, "signature", "byte {at}, bit {bit}");
            }
        }
        for at in 0..header.len() {
            let mut bad = header.clone();
            bad[at] ^= 1;
            assert!(verify(&signature, &bad, &[]).is_err(), "byte {at}");
        }
        for end in 0..signature.len() {
            assert!(verify(&signature[..end], &header, &[]).is_err(), "{end}");
        }
        assert!(verify(&[&signature[..], &[0]].concat(), &header, &[]).is_err());
    }

    #[test]
    fn test_the_domain_is_part_of_what_is_signed() {
        let (key, header) = ([7; 32], b"header");
        let mut plain = sign(&key, header);
        let alone = SigningKey::from_bytes(&key).sign(header).to_bytes();
        plain[40..].copy_from_slice(&alone);
        assert!(verify(&plain, header, &[]).is_err());
    }

    #[test]
    fn test_a_key_of_small_order_signs_nothing() {
        // The neutral element as key and as R, with s = 0, fits every message where small orders are let through.
        let mut forged = [0; SIGNATURE_BYTES];
        forged[..8].copy_from_slice(&MAGIC);
        forged[8] = 1;
        forged[40] = 1;
        assert_eq!(verify(&forged, b"any", &[]).unwrap_err().code, "signature");
    }
}
