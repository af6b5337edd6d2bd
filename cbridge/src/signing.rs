//! Signatures of files.

use std::ffi::c_char;
use std::path::PathBuf;

use dala_runtime::error::{Error, Result};
use dala_runtime::file::{self, Container};
use dala_runtime::signature::{self, KEY_BYTES, PrivateKey, PublicKey, SIGNATURE_BYTES};

use crate::calls::{dala_engine, dala_program, load, some};
use crate::error::{dala_error, guard};
use crate::guard::{get, null, slice, string};

/// # Safety
/// `keys` is NULL or points to `n` public keys that live for `'a`.
unsafe fn trusted<'a>(keys: *const u8, n: usize) -> Result<&'a [PublicKey]> {
    // SAFETY: passed on to the caller; a key is plain bytes.
    unsafe { slice(keys.cast::<PublicKey>(), n, "trusted") }
}

/// # Safety
/// `out` is NULL or points to memory for `N` bytes.
unsafe fn write<const N: usize>(out: *mut u8, value: [u8; N], what: &str) -> Result<()> {
    some(out, what)?;
    // SAFETY: not NULL; the rest is passed on to the caller.
    unsafe { out.cast::<[u8; N]>().write(value) };
    Ok(())
}

/// Maps a file that must be signed by one of the keys, and loads it.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_open_trusted(
    engine: *mut dala_engine,
    path: *const c_char,
    keys: *const u8,
    n_keys: usize,
    out: *mut *mut dala_program,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            let engine = get(engine, "engine")?;
            let path = PathBuf::from(string(path, "path")?);
            let keys = trusted(keys, n_keys)?;
            if keys.is_empty() {
                // Read as "any signer", an empty list would trust everybody.
                return Err(Error::argument("no key is trusted").with_code("no-keys"));
            }
            load(engine, Container::open_trusted(&path, keys)?, out)
        })
    }
}

/// Loads a program from bytes with their signature.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_load_signed(
    engine: *mut dala_engine,
    bytes: *const u8,
    len: usize,
    signature: *const u8,
    signature_len: usize,
    keys: *const u8,
    n_keys: usize,
    out: *mut *mut dala_program,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            let engine = get(engine, "engine")?;
            let signature = if signature.is_null() {
                None
            } else {
                Some(slice(signature, signature_len, "signature")?)
            };
            let bytes = slice(bytes, len, "bytes")?;
            let keys = trusted(keys, n_keys)?;
            load(engine, Container::load_signed(bytes, signature, keys)?, out)
        })
    }
}

/// Makes a private key.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_private_key_new(
    private_key: *mut u8,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(private_key, "private_key")?;
            write::<KEY_BYTES>(private_key, signature::generate()?, "private_key")
        })
    }
}

/// The public key of a private one.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_public_key(
    private_key: *const u8,
    public_key: *mut u8,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            let private = get(private_key.cast::<PrivateKey>(), "private_key")?;
            write(public_key, signature::public_key(private), "public_key")
        })
    }
}

/// Signs a file.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_sign(
    bytes: *const u8,
    len: usize,
    private_key: *const u8,
    signature: *mut u8,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            let private = get(private_key.cast::<PrivateKey>(), "private_key")?;
            let made = file::sign(slice(bytes, len, "bytes")?, private)?;
            write::<SIGNATURE_BYTES>(signature, made, "signature")
        })
    }
}

/// Checks a signature.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_signature_verify(
    bytes: *const u8,
    len: usize,
    signature: *const u8,
    signature_len: usize,
    keys: *const u8,
    n_keys: usize,
    signer: *mut u8,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(signature.cast_mut(), "signature")?;
            let signature = slice(signature, signature_len, "signature")?;
            let bytes = slice(bytes, len, "bytes")?;
            let found = file::check_signature(bytes, Some(signature), trusted(keys, n_keys)?)?;
            write(signer, found.ok_or_else(|| null("signature"))?, "signer")
        })
    }
}
