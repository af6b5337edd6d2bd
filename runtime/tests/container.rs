//! Damaged and hostile containers are refused with a message, whatever is wrong with them.

mod common;

use common::*;
use dala_runtime::Status;
use dala_runtime::file::Container;
use serde_json::{Value, json};

fn status(bytes: &[u8]) -> Option<Status> {
    let engine = flex("{}");
    load(&*engine, bytes).err().map(|e| e.status)
}

#[test]
fn test_the_unharmed_file_loads_and_runs() {
    let engine = flex("{}");
    let program = load(&*engine, &train()).unwrap();
    let out = run(&*engine, &*program, 0, &[(&[1, 4], &[0.0; 4])]).unwrap();
    assert_eq!(out, [[0.0; 4]]);
}

#[test]
fn test_every_truncation_is_refused() {
    let bytes = train();
    for end in (0..bytes.len())
        .step_by(64)
        .chain([1, 7, 8, 9, bytes.len() - 1])
    {
        assert_eq!(
            status(&bytes[..end]),
            Some(Status::InvalidFile),
            "cut at {end}"
        );
    }
}

#[test]
fn test_every_flipped_bit_is_noticed() {
    let bytes = train();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for at in (0..bytes.len()).step_by(3).chain(header..bytes.len()) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        if at < header {
            assert_eq!(status(&bad), Some(Status::InvalidFile), "flipped at {at}");
            continue;
        }
        // Tensors are checked at first touch.
        let engine = flex("{}");
        let program = load(&*engine, &bad).unwrap();
        let error = run(&*engine, &*program, 0, &[(&[1, 4], &[0.0; 4])]).unwrap_err();
        assert_eq!(error.status, Status::InvalidFile);
        assert!(error.message.contains("\"w\""), "{error}");
    }
}

#[test]
fn test_a_file_that_claims_more_than_it_has_is_refused_before_anything_is_reserved() {
    for claim in [u64::MAX, 1 << 63, 100_000_001, 99_999_999] {
        let mut bytes = claim.to_le_bytes().to_vec();
        bytes.extend_from_slice(b"{}");
        assert_eq!(status(&bytes), Some(Status::InvalidFile));
    }
}

#[test]
fn test_wrong_tensor_tables_are_refused_though_their_digest_is_right() {
    let (good, data) = parts(
        &program(vec![], vec![]),
        &[
            ("a", ("F32", vec![2], vec![0; 8])),
            ("b", ("I64", vec![1], vec![0; 8])),
        ],
    );
    assert_eq!(status(&seal(&good, &data)), None);
    let set = |path: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        bad
    };
    let huge = 1u64 << 62;
    let mut cases = vec![
        ("overlap", set("/b/data_offsets", json!([4, 12]))),
        ("gap", set("/b/data_offsets", json!([12, 20]))),
        ("backwards", set("/b/data_offsets", json!([16, 8]))),
        (
            "beyond",
            set(
                "/b",
                json!({"dtype": "I64", "shape": [2], "data_offsets": [8, 24]}),
            ),
        ),
        (
            "short",
            set(
                "/b",
                json!({"dtype": "I32", "shape": [1], "data_offsets": [8, 12]}),
            ),
        ),
        ("count", set("/a/shape", json!([3]))),
        ("overflow", set("/a/shape", json!([huge, huge]))),
        ("overflow to nothing", set("/a/shape", json!([huge, 4, 0]))),
        ("negative", set("/a/shape", json!([-2]))),
        ("rank", set("/a/shape", json!(vec![1; 40]))),
        ("dtype", set("/a/dtype", json!("F31"))),
        (
            "field",
            set(
                "/a",
                json!({"dtype": "F32", "shape": [2], "data_offsets": [0, 8], "x": 1}),
            ),
        ),
        ("missing", set("/a", json!({"dtype": "F32", "shape": [2]}))),
        ("version", set("/__metadata__/dala.version", json!("2"))),
        ("metadata", set("/__metadata__/dala.version", json!(1))),
        ("program", set("/__metadata__/dala.program", json!("{"))),
        (
            "hash for nothing",
            set(
                "/__metadata__/dala.tensors",
                json!(json!({"a": sha(&[0; 8]), "b": sha(&[0; 8]), "c": ""}).to_string()),
            ),
        ),
        ("no hash", set("/__metadata__/dala.tensors", json!("{}"))),
    ];
    for aliases in [
        json!({"c": "d"}),
        json!({"a": "b"}),
        json!({"c": "a", "d": "c"}),
        json!([1]),
    ] {
        let mut bad = good.clone();
        bad["__metadata__"]["dala.aliases"] = json!(aliases.to_string());
        cases.push(("alias", bad));
    }
    for (name, header) in cases {
        assert_eq!(
            status(&seal(&header, &data)),
            Some(Status::InvalidFile),
            "{name}"
        );
    }
    for header in [json!([]), json!({}), json!({"__metadata__": {}})] {
        assert_eq!(status(&seal(&header, &[])), Some(Status::InvalidFile));
    }
}

#[test]
fn test_a_key_that_stands_twice_is_refused() {
    let (good, _) = parts(&program(vec![], vec![]), &[]);
    let text = good.to_string();
    let twice = text.replacen(
        "\"dala.version\":\"1\"",
        "\"dala.version\":\"1\",\"dala.version\":\"1\"",
        1,
    );
    let mut bytes = (twice.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(twice.as_bytes());
    assert_eq!(status(&bytes), Some(Status::InvalidFile));
}

#[test]
fn test_deep_json_does_not_overflow_the_stack() {
    let deep = "[".repeat(200_000);
    let mut bytes = (deep.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(deep.as_bytes());
    assert_eq!(status(&bytes), Some(Status::InvalidFile));
    let (mut header, data) = parts(&program(vec![], vec![]), &[]);
    header["__metadata__"]["dala.program"] = json!(deep);
    assert_eq!(status(&seal(&header, &data)), Some(Status::InvalidFile));
}

#[test]
fn test_aliases_lead_to_the_tensor() {
    let (mut header, data) = parts(&program(vec![], vec![]), &[("a", ("U8", vec![1], vec![7]))]);
    header["__metadata__"]["dala.aliases"] = json!("{\"tied\":\"a\"}");
    let container = Container::load(&seal(&header, &data)).unwrap();
    assert_eq!(container.bytes("tied").unwrap(), [7]);
    assert!(container.bytes("other").is_err());
}

#[test]
fn test_a_mapped_file_gives_the_same_results() {
    let path = std::env::temp_dir().join(format!("dala-test-{}.dala", std::process::id()));
    std::fs::write(&path, train()).unwrap();
    let engine = flex("{}");
    let program = engine.load(Container::open(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    run(&*engine, &*program, 0, &[(&[1, 4], &[2.0; 4])]).unwrap();
    let w = engine.read(&*program.get_state("w").unwrap()).unwrap();
    assert_eq!(to_f32(&w), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(
        Container::open(&path).err().unwrap().status,
        Status::IoError
    );
}

#[test]
fn test_a_signature_beside_a_file_is_checked_and_one_in_the_way_is_not_passed_over() {
    use dala_runtime::{file, signature};
    let folder = std::env::temp_dir().join(format!("dala-signature-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (path, beside) = (folder.join("f.dala"), folder.join("f.dala.sig"));
    let bytes = train();
    std::fs::write(&path, &bytes).unwrap();
    let (key, other) = ([1; 32], [2; 32]);
    let signer = signature::public_key(&key);
    let code = |trusted: &[[u8; 32]]| {
        Container::open_trusted(&path, trusted)
            .err()
            .map(|e| e.code.clone())
    };
    assert_eq!(code(&[]), None);
    assert_eq!(code(&[signer]).as_deref(), Some("signature-missing"));
    std::fs::write(&beside, file::sign(&bytes, &key).unwrap()).unwrap();
    assert_eq!(code(&[]), None);
    assert_eq!(code(&[signature::public_key(&other), signer]), None);
    assert_eq!(
        code(&[signature::public_key(&other)]).as_deref(),
        Some("signature-key")
    );
    let cut = &file::sign(&bytes, &key).unwrap()[..103];
    std::fs::write(&beside, cut).unwrap();
    assert_eq!(code(&[]).as_deref(), Some("signature"));
    assert!(Container::load_signed(&bytes, Some(cut), &[]).is_err());
    std::fs::remove_file(&beside).unwrap();
    std::fs::create_dir(&beside).unwrap();
    assert_eq!(code(&[]).as_deref(), Some("io-error"));
    std::fs::remove_dir_all(&folder).unwrap();
}
