//! Effects and the handler.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dala_runtime::dtype::DType;
use dala_runtime::effects::{Event, Handler, Shown, set_handler};
use dala_runtime::{Error, Loaded, Status};
use serde_json::{Value, json};

use crate::common::*;
use crate::*;

/// Tests that set the process' handler take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let guard = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    set_handler(None);
    guard
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    polls: AtomicUsize,
    refuses: Option<&'static str>,
}

impl Log {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

fn floats(values: &[Shown]) -> Vec<f32> {
    values
        .iter()
        // SAFETY: the tests show scalars of `f32`.
        .map(|v| unsafe { v.view.ptr.cast::<f32>().read_unaligned() })
        .collect()
}

impl Handler for Log {
    fn handle(&self, event: Event<'_>) -> bool {
        let line = match event {
            Event::Print { format, values } => format!("print {format} {:?}", floats(values)),
            Event::Tap { name, values } => format!("tap {name} {:?}", floats(values)),
            Event::Callback {
                name,
                values,
                results,
            } => {
                let doubled = 2.0 * floats(values)[0];
                for (ty, bytes) in results.iter_mut() {
                    match ty.dtype {
                        DType::F32 => bytes.copy_from_slice(&doubled.to_le_bytes()),
                        _ => bytes.fill(7),
                    }
                }
                format!("callback {name} {doubled}")
            }
            Event::Poll => {
                self.polls.fetch_add(1, Ordering::Relaxed);
                return self.refuses != Some("poll");
            }
        };
        let goes_on = !self.refuses.is_some_and(|kind| line.starts_with(kind));
        self.lines.lock().unwrap().push(line);
        goes_on
    }
}

pub fn token() -> Value {
    scalar("token")
}

/// A body with effects in a scan over three numbers, then a callback.
pub fn effects() -> Value {
    let body = function(
        vec![token(), f32t(&[])],
        vec![
            node("print", &[0, 1], token(), json!({"format": "x = {0}"})),
            node("tap", &[2, 1], token(), json!({"name": "x"})),
        ],
        &[3],
    );
    let main = function(
        vec![f32t(&[3]), f32t(&[])],
        vec![
            node("token", &[], token(), json!({})),
            many(
                "scan",
                &[2, 0],
                vec![token()],
                json!({"body": 0, "consts": 0, "carries": 1, "length": [3], "reverse": true}),
            ),
            many(
                "callback",
                &[3, 1],
                vec![token(), f32t(&[]), scalar("bool")],
                json!({"name": "twice", "results": [f32t(&[]), scalar("bool")]}),
            ),
            node("cast", &[6], f32t(&[]), json!({"dtype": "f32"})),
        ],
        &[5, 7],
    );
    whole(vec![body, main])
}

#[test]
fn test_effects_run_in_order_and_callbacks_give_values() {
    let _turn = turn();
    let log = Arc::new(Log::default());
    set_handler(Some(log.clone()));
    let args = [In::F(&[3], &[1.0, 2.0, 3.0]), In::F(&[], &[21.0])];
    let out = results(&effects(), &args);
    assert_eq!(out, [[42.0], [1.0]]);
    let wanted = [
        "print x = {0} [3.0]",
        "tap x [3.0]",
        "print x = {0} [2.0]",
        "tap x [2.0]",
        "print x = {0} [1.0]",
        "tap x [1.0]",
        "callback twice 42",
    ];
    assert_eq!(log.lines(), wanted);
    for kind in ["print", "tap", "callback"] {
        let refuses = Some(kind);
        set_handler(Some(Arc::new(Log {
            refuses,
            ..Log::default()
        })));
        let e = try_run(&effects(), &args).unwrap_err();
        assert_eq!(
            (e.status, e.code.as_str()),
            (Status::RuntimeError, "handler")
        );
        assert_eq!(e.op.as_deref(), Some(kind));
    }
    set_handler(None);
    let e = try_run(&effects(), &args).unwrap_err();
    assert_eq!(
        (e.status, e.code.as_str()),
        (Status::Unsupported, "no-handler")
    );
    assert!(e.message.contains("twice") && e.location.is_some(), "{e}");
}

#[test]
fn test_a_false_assertion_fails_with_its_message_and_place() {
    let main = function(
        vec![f32t(&[2]), f32t(&[])],
        vec![
            node("token", &[], token(), json!({})),
            node("isfinite", &[1], scalar("bool"), json!({})),
            node(
                "assert",
                &[2, 3, 0, 1],
                token(),
                json!({"message": "{0} and {1} of {2}"}),
            ),
        ],
        &[0],
    );
    let p = whole(vec![main]);
    let x = In::F(&[2], &[1.0, 2.5]);
    assert_eq!(results(&p, &[x, In::F(&[], &[1.0])])[0], [1.0, 2.5]);
    let x = In::F(&[2], &[1.0, 2.5]);
    let e = try_run(&p, &[x, In::F(&[], &[f32::INFINITY])]).unwrap_err();
    assert_eq!(
        (e.status, e.code.as_str()),
        (Status::RuntimeError, "assertion")
    );
    assert_eq!(e.message, "[1.  2.5] and inf of {2}");
    assert_eq!((e.op.as_deref(), e.node), (Some("assert"), Some(2)));
    assert_eq!(e.location.as_ref().unwrap().line, 12);
}

#[test]
fn test_a_loop_without_end_is_interrupted_and_state_stays() {
    let _turn = turn();
    let log = Arc::new(Log {
        refuses: Some("poll"),
        ..Log::default()
    });
    set_handler(Some(log.clone()));
    // while 0 < 1 over the state, which would then be replaced.
    let cond = function(
        vec![f32t(&[4])],
        vec![
            lit(ONE, f32t(&[])),
            lit("00000000", f32t(&[])),
            node("less", &[2, 1], scalar("bool"), json!({})),
        ],
        &[3],
    );
    let main = function(
        vec![f32t(&[4])],
        vec![many(
            "while_loop",
            &[0],
            vec![f32t(&[4])],
            json!({"cond": 0, "body": 1, "consts": 0}),
        )],
        &[1],
    );
    let p = program(
        vec![cond, unary("neg", &[4]), main],
        vec![entry("run", 2, &[("w", "state:w")], &["state:w"])],
    );
    let engine = flex("{}");
    let stored = ("F32", vec![4], f32s(&[1.0, 2.0, 3.0, 4.0]));
    let loaded = load(&*engine, &file(&p, &[("w", stored)])).unwrap();
    let e = loaded.run(0, &[], None).err().unwrap();
    assert_eq!(
        (e.status, e.code.as_str()),
        (Status::Interrupted, "interrupted")
    );
    assert_eq!(e.op.as_deref(), Some("while_loop"));
    assert_eq!(log.polls.load(Ordering::Relaxed), 1);
    let w = loaded.get_state("w").unwrap();
    assert_eq!(to_f32(&engine.read(&*w).unwrap()), [1.0, 2.0, 3.0, 4.0]);
    set_handler(None);
}

#[test]
fn test_a_handler_that_starts_a_run_of_the_same_state_is_told_so() {
    struct Again(Mutex<Option<Arc<dyn Loaded>>>, Mutex<Option<Error>>);
    impl Handler for Again {
        fn handle(&self, _: Event<'_>) -> bool {
            let program = self.0.lock().unwrap().clone().unwrap();
            *self.1.lock().unwrap() = program.run(0, &[], None).err();
            true
        }
    }
    let _turn = turn();
    let main = function(
        vec![f32t(&[])],
        vec![
            node("token", &[], token(), json!({})),
            node("tap", &[1, 0], token(), json!({"name": "w"})),
            node("neg", &[0], f32t(&[]), json!({})),
        ],
        &[3],
    );
    let p = program(
        vec![main],
        vec![entry("run", 0, &[("w", "state:w")], &["state:w"])],
    );
    let engine = flex("{}");
    let loaded: Arc<dyn Loaded> =
        load(&*engine, &file(&p, &[("w", ("F32", vec![], f32s(&[2.0])))]))
            .unwrap()
            .into();
    let again = Arc::new(Again(Mutex::new(Some(loaded.clone())), Mutex::new(None)));
    set_handler(Some(again.clone()));
    loaded.run(0, &[], None).unwrap();
    assert_eq!(again.1.lock().unwrap().as_ref().unwrap().code, "busy");
    set_handler(None);
    *again.0.lock().unwrap() = None;
}
