//! The `.dala` container: a safetensors file. Nothing in it is believed before it is checked.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::File;
use std::marker::PhantomData;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::dtype::DType;
use crate::error::{Error, Result, clip};
use crate::signature::{self, PrivateKey, PublicKey, SIGNATURE_BYTES};
use crate::value::{MAX_RANK, Ty};

/// The longest header.
pub const MAX_HEADER: usize = 100_000_000;

/// The bytes of a container, shared by the values that lie in them.
#[derive(Clone)]
pub struct Source(Arc<Storage>);

enum Storage {
    Owned(Vec<u8>),
    Mapped(memmap2::Mmap),
}

impl AsRef<[u8]> for Source {
    fn as_ref(&self) -> &[u8] {
        match &*self.0 {
            Storage::Owned(bytes) => bytes,
            Storage::Mapped(map) => map,
        }
    }
}

impl Deref for Source {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

struct Entry {
    ty: Ty,
    start: usize,
    end: usize,
    hash: String,
    intact: OnceLock<bool>,
}

/// An opened container whose header has been checked.
pub struct Container {
    source: Source,
    /// Where the tensor bytes begin.
    data: usize,
    tensors: BTreeMap<String, Entry>,
    aliases: BTreeMap<String, String>,
    program: Value,
}

impl Container {
    /// Reads a container from a copy of its bytes.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        Self::new(Source(Arc::new(Storage::Owned(bytes.to_vec()))))
    }

    /// The same with the content of its `FILE.sig`, which must be right, and by one of the `trusted` keys where there
    /// are any; these demand a signature.
    pub fn load_signed(
        bytes: &[u8],
        signature: Option<&[u8]>,
        trusted: &[PublicKey],
    ) -> Result<Self> {
        check_signature(bytes, signature, trusted)?;
        Self::load(bytes)
    }

    /// Maps the file at `path`. A `FILE.sig` beside it must be its signature.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_trusted(path, &[])
    }

    /// The same, and where there are `trusted` keys, the file must be signed by one of them.
    pub fn open_trusted(path: &Path, trusted: &[PublicKey]) -> Result<Self> {
        let source = Self::map(path)?;
        check_signature(&source, signature::read_beside(path)?.as_deref(), trusted)?;
        Self::new(source)
    }

    fn map(path: &Path) -> Result<Source> {
        let fail = |e: std::io::Error| Error::io(format!("{}: {e}", path.display()));
        let file = File::open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?;
        if !length.is_file() {
            return Err(Error::io(format!("{}: not a file", path.display())));
        }
        if length.len() == 0 {
            return Ok(Source(Arc::new(Storage::Owned(Vec::new()))));
        }
        // SAFETY: the map is only read. As with every mapped file, whoever may write the file must not shrink or
        // change it while it is in use; `docs/format.md` asks for replacing files instead.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(fail)?;
        Ok(Source(Arc::new(Storage::Mapped(map))))
    }

    fn new(source: Source) -> Result<Self> {
        let bad = |message: &str| Error::invalid_file(message);
        let signed = signed_part(&source)?;
        let (data, header) = (signed.len(), &signed[8..]);
        let Pairs(items) = serde_json::from_slice::<Pairs<Item>>(header)
            .map_err(|e| Error::invalid_file(format!("the header does not read: {e}")))?;
        let mut metadata = None;
        let mut rows = Vec::new();
        for (key, item) in items {
            match item {
                Item::Metadata(Pairs(pairs)) if key == "__metadata__" => metadata = Some(pairs),
                Item::Tensor(row) if key != "__metadata__" => rows.push((key, row)),
                Item::Metadata(_) | Item::Tensor(_) => {
                    return Err(Error::invalid_file(format!(
                        "header entry {:?} is not what it should be",
                        clip(&key)
                    )));
                }
            }
        }
        let mut meta = Metadata::read(metadata.ok_or_else(|| bad("there is no __metadata__"))?)?;
        check_digest(header, &meta.digest)?;

        let tensors = read_tensors(rows, &mut meta.hashes, source.len() - data)?;
        let Value::Object(aliases) = parse(&meta.aliases, "dala.aliases")? else {
            return Err(bad("dala.aliases is not an object"));
        };
        let mut table = BTreeMap::new();
        for (name, target) in aliases {
            match target {
                Value::String(to) if tensors.contains_key(&to) && !tensors.contains_key(&name) => {
                    table.insert(name, to);
                }
                _ => {
                    return Err(Error::invalid_file(format!(
                        "alias {:?} does not name a tensor, or is one itself",
                        clip(&name)
                    )));
                }
            }
        }
        Ok(Container {
            program: parse(&meta.program, "dala.program")?,
            source,
            data,
            tensors,
            aliases: table,
        })
    }

    /// Takes the program's JSON out.
    pub fn take_program(&mut self) -> Value {
        std::mem::take(&mut self.program)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        self.tensors.get(name)
    }

    /// The stored type of a tensor: no key or complex dtype exists in the container.
    pub fn ty(&self, name: &str) -> Option<&Ty> {
        self.entry(name).map(|e| &e.ty)
    }

    /// The name under which the bytes of `name` stand.
    pub fn resolve<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    /// The bytes of a tensor, checked at the first touch.
    pub fn bytes(&self, name: &str) -> Result<&[u8]> {
        let entry = self
            .entry(name)
            .ok_or_else(|| Error::invalid_file(format!("there is no tensor {:?}", clip(name))))?;
        let bytes = &self.source[self.data + entry.start..self.data + entry.end];
        let intact = *entry.intact.get_or_init(|| {
            hex(&Sha256::digest(bytes)) == entry.hash
                && (entry.ty.dtype != DType::Bool || bytes.iter().all(|b| *b <= 1))
        });
        if !intact {
            return Err(Error::invalid_file(format!(
                "the bytes of tensor {:?} are damaged",
                clip(name)
            ))
            .with_code("tensor-digest")
            .with("tensor", name));
        }
        Ok(bytes)
    }

    /// The whole file: keep it as long as [`Container::bytes`] is used without a copy.
    pub fn source(&self) -> Source {
        self.source.clone()
    }
}

/// The length prefix and the header of a file, which is what signatures are made of.
pub fn signed_part(bytes: &[u8]) -> Result<&[u8]> {
    let bad = |message: &str| Error::invalid_file(message);
    let size = bytes
        .first_chunk::<8>()
        .map(|n| u64::from_le_bytes(*n))
        .ok_or_else(|| bad("the file is shorter than 8 bytes"))?;
    let size = usize::try_from(size)
        .ok()
        .filter(|n| *n <= MAX_HEADER)
        .ok_or_else(|| bad("the header is longer than 100 MB"))?;
    bytes
        .get(..8 + size)
        .ok_or_else(|| bad("the file ends inside its header"))
}

/// The content of `FILE.sig` for the bytes of a file, of which the header is enough. Nothing but the header's length is
/// checked: sign what you have loaded.
pub fn sign(bytes: &[u8], private: &PrivateKey) -> Result<[u8; SIGNATURE_BYTES]> {
    Ok(signature::sign(private, signed_part(bytes)?))
}

/// Checks a signature where there is one, and gives the signer; without one, `trusted` must be empty.
pub fn check_signature(
    bytes: &[u8],
    signature: Option<&[u8]>,
    trusted: &[PublicKey],
) -> Result<Option<PublicKey>> {
    match signature {
        Some(signature) => signature::verify(signature, signed_part(bytes)?, trusted).map(Some),
        None if trusted.is_empty() => Ok(None),
        None => Err(signature::missing()),
    }
}

struct Metadata {
    program: String,
    digest: String,
    aliases: String,
    hashes: BTreeMap<String, String>,
}

impl Metadata {
    fn read(pairs: Vec<(String, String)>) -> Result<Self> {
        let mut map: BTreeMap<String, String> = pairs.into_iter().collect();
        let mut take = |key: &str| {
            map.remove(key)
                .ok_or_else(|| Error::invalid_file(format!("metadata {key:?} is missing")))
        };
        let version = take("dala.version")?;
        if version != "1" {
            return Err(Error::invalid_file(format!(
                "format version {:?}; this reader knows version 1",
                clip(&version)
            ))
            .with_code("version"));
        }
        let hashes = parse(&take("dala.tensors")?, "dala.tensors")?;
        let hashes = match hashes {
            Value::Object(map) => map
                .into_iter()
                .map(|(name, hash)| match hash {
                    Value::String(hash) => Ok((name, hash)),
                    _ => Err(Error::invalid_file(
                        "a hash of dala.tensors is not a string",
                    )),
                })
                .collect::<Result<_>>()?,
            _ => return Err(Error::invalid_file("dala.tensors is not an object")),
        };
        Ok(Metadata {
            program: take("dala.program")?,
            digest: take("dala.digest")?,
            aliases: take("dala.aliases").unwrap_or_else(|_| "{}".to_string()),
            hashes,
        })
    }
}

fn parse(text: &str, what: &str) -> Result<Value> {
    let Unique(value) = serde_json::from_str(text)
        .map_err(|e| Error::invalid_file(format!("{what} is not JSON: {e}")))?;
    Ok(value)
}

/// The digest stands in the header as `"dala.digest":"<64 hex>"`, and is taken over it with zeros in its place.
fn check_digest(header: &[u8], digest: &str) -> Result<()> {
    const KEY: &[u8] = b"\"dala.digest\":\"";
    let bad = |message: &str| Err(Error::invalid_file(message).with_code("digest"));
    if digest.len() != 64 || !digest.bytes().all(|c| c.is_ascii_hexdigit()) {
        return bad("dala.digest is not 64 hex digits");
    }
    let mut places = header
        .windows(KEY.len())
        .enumerate()
        .filter(|(_, window)| *window == KEY)
        .map(|(i, _)| i + KEY.len());
    let (Some(at), None) = (places.next(), places.next()) else {
        return bad("dala.digest does not stand once in the header");
    };
    if header.get(at..at + 64) != Some(digest.as_bytes()) {
        return bad("dala.digest is not written plainly");
    }
    let mut sha = Sha256::new();
    sha.update(&header[..at]);
    sha.update([b'0'; 64]);
    sha.update(&header[at + 64..]);
    if hex(&sha.finalize()) != digest {
        return bad("the header does not match its digest: the file is damaged");
    }
    Ok(())
}

fn read_tensors(
    rows: Vec<(String, Row)>,
    hashes: &mut BTreeMap<String, String>,
    data: usize,
) -> Result<BTreeMap<String, Entry>> {
    let mut list = Vec::with_capacity(rows.len());
    for (name, row) in rows {
        let wrong = |why: &str| {
            Error::invalid_file(format!("tensor {:?}: {why}", clip(&name)))
                .with("tensor", clip(&name))
        };
        let dtype = dtype(&row.dtype).ok_or_else(|| wrong("unknown dtype"))?;
        if row.shape.len() > MAX_RANK {
            return Err(wrong("the rank is too high"));
        }
        let ty = Ty::new(dtype, row.shape).map_err(|e| wrong(&e.message))?;
        let [start, end] = row.data_offsets;
        if end.checked_sub(start) != Some(ty.bytes()) {
            return Err(wrong("the byte range does not fit dtype and shape"));
        }
        let hash = hashes
            .remove(&name)
            .ok_or_else(|| wrong("dala.tensors has no hash of it"))?;
        list.push((
            name,
            Entry {
                ty,
                start,
                end,
                hash,
                intact: OnceLock::new(),
            },
        ));
    }
    if let Some(name) = hashes.keys().next() {
        return Err(Error::invalid_file(format!(
            "dala.tensors names {:?}, which is not in the file",
            clip(name)
        )));
    }
    list.sort_by_key(|(_, e)| (e.start, e.end));
    let mut at = 0;
    for (name, entry) in &list {
        if entry.start != at {
            return Err(Error::invalid_file(format!(
                "tensor {:?}: its range leaves a gap or overlaps",
                clip(name)
            )));
        }
        at = entry.end;
    }
    if at != data {
        return Err(Error::invalid_file(format!(
            "the tensors take {at} bytes, the file has {data}"
        )));
    }
    Ok(list.into_iter().collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "BOOL" => DType::Bool,
        "I8" => DType::I8,
        "I16" => DType::I16,
        "I32" => DType::I32,
        "I64" => DType::I64,
        "U8" => DType::U8,
        "U16" => DType::U16,
        "U32" => DType::U32,
        "U64" => DType::U64,
        "F16" => DType::F16,
        "BF16" => DType::BF16,
        "F32" => DType::F32,
        "F64" => DType::F64,
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| {
            [
                DIGITS[(b >> 4) as usize] as char,
                DIGITS[(b & 15) as usize] as char,
            ]
        })
        .collect()
}

/// A JSON object whose keys must differ: two readers could disagree about which one counts.
struct Pairs<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Pairs<T>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                let (mut pairs, mut seen) = (Vec::new(), HashSet::new());
                while let Some((key, value)) = map.next_entry::<String, T>()? {
                    if !seen.insert(key.clone()) {
                        return Err(serde::de::Error::custom("a key stands twice"));
                    }
                    pairs.push((key, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Reader(PhantomData))
    }
}

/// A JSON value whose objects, at any depth, name a key once.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }
            fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_str<E>(self, v: &str) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_string<E>(self, v: String) -> Result<Value, E> {
                Ok(v.into())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut list = Vec::new();
                while let Some(Unique(value)) = seq.next_element()? {
                    list.push(value);
                }
                Ok(list.into())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut out = serde_json::Map::new();
                while let Some((key, Unique(value))) = map.next_entry::<String, Unique>()? {
                    if out.insert(key, value).is_some() {
                        return Err(serde::de::Error::custom("a key stands twice"));
                    }
                }
                Ok(out.into())
            }
        }
        deserializer.deserialize_any(Reader).map(Unique)
    }
}

/// A value of the header: a tensor or the metadata.
#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    Tensor(Row),
    Metadata(Pairs<String>),
}
