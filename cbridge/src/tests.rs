//! The C functions, called as C would.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};

use crate::array::{dala_arg, dala_array, dala_result, dala_tensor};
use crate::calls::*;
use crate::error::*;
use crate::hooks::*;

const F32: i32 = 11;

fn engine(options: *const c_char) -> *mut dala_engine {
    let mut out = null_mut();
    // SAFETY: valid pointers.
    let status = unsafe { dala_engine_new(c"flex".as_ptr(), options, &mut out, null_mut()) };
    assert_eq!(status, 0);
    out
}

fn array(shape: &[i64], data: &[f32]) -> dala_array {
    dala_array {
        dtype: F32,
        ndim: shape.len() as i32,
        shape: shape.as_ptr(),
        strides: null(),
        data: data.as_ptr().cast_mut().cast(),
    }
}

fn given(shape: &[i64], data: &[f32]) -> dala_arg {
    dala_arg {
        tensor: null_mut(),
        array: array(shape, data),
        flags: 0,
    }
}

fn handle(tensor: *mut dala_tensor, flags: i32) -> dala_arg {
    let mut arg = given(&[], &[]);
    (arg.tensor, arg.flags) = (tensor, flags);
    arg
}

fn no_result() -> dala_result {
    dala_result {
        tensor: null_mut(),
        array: array(&[], &[]),
    }
}

fn values(array: &dala_array, n: usize) -> Vec<f32> {
    // SAFETY: a dense result of `n` elements.
    unsafe { std::slice::from_raw_parts(array.data.cast::<f32>(), n) }.to_vec()
}

#[test]
fn test_null_pointers_are_refused_and_frees_take_them() {
    let mut err = null_mut();
    // SAFETY: the functions promise to check for NULL.
    unsafe {
        assert_eq!(dala_engine_new(null(), null(), null_mut(), null_mut()), 3);
        assert_eq!(
            dala_program_load(null_mut(), null(), 3, null_mut(), &mut err),
            3
        );
        assert_eq!(dala_error_status(err), 3);
        assert!(
            CStr::from_ptr(dala_error_json(err))
                .to_str()
                .unwrap()
                .contains("\"null\"")
        );
        dala_error_free(err);
        let none = null_mut();
        assert_eq!(
            dala_run(none, 0, null(), 0, null_mut(), 0, null(), 0, null_mut()),
            3
        );
        assert_eq!(
            dala_op_run(null_mut(), null(), 2, null_mut(), 1, null(), 0, null_mut()),
            3
        );
        assert_eq!(dala_tensor_view(null(), null_mut(), null_mut()), 3);
        assert_eq!(dala_tensor_clone(null(), null_mut(), null_mut()), 3);
        assert_eq!(dala_program_entry(null(), null()), -1);
        assert!(dala_program_info(null()).is_null());
        dala_engine_free(null_mut());
        dala_program_free(null_mut());
        dala_op_free(null_mut());
        dala_tensor_free(null_mut());
        dala_error_free(null_mut());
    }
}

#[test]
fn test_kernels_without_a_name_or_of_another_version_are_refused() {
    extern "C" fn nothing() {}
    let kernel = nothing as extern "C" fn() as *mut c_void;
    let good = c"key:f32[0]->f32[0]/1/1";
    let mut err = null_mut();
    // SAFETY: nothing calls the kernel; the pointers are valid.
    unsafe {
        assert_eq!(dala_kernel_register(null(), kernel, 1, null_mut()), 3);
        assert_eq!(
            dala_kernel_register(good.as_ptr(), null_mut(), 1, null_mut()),
            3
        );
        assert_eq!(
            dala_kernel_register(c"key".as_ptr(), kernel, 1, null_mut()),
            3
        );
        assert_eq!(dala_kernel_register(good.as_ptr(), kernel, 2, &mut err), 5);
        let json = CStr::from_ptr(dala_error_json(err)).to_str().unwrap();
        assert!(json.contains("kernel-abi"), "{json}");
        dala_error_free(err);
        assert_eq!(
            dala_kernel_register(good.as_ptr(), kernel, 1, null_mut()),
            0
        );
        dala_set_handler(None, null_mut());
    }
}

#[test]
fn test_an_operation_runs_and_frees_ride_along() {
    let engine = engine(null());
    let (mut op, mut out) = (null_mut(), no_result());
    let json = c"{\"op\": \"add\", \"attrs\": {}}";
    let shape = [3];
    // SAFETY: valid pointers.
    unsafe {
        assert_eq!(dala_op_new(engine, json.as_ptr(), &mut op, null_mut()), 0);
        let args = [given(&shape, &[1.0, 2.0, 3.0]), given(&[], &[10.0])];
        let before = dala_call_count();
        assert_eq!(
            dala_op_run(op, args.as_ptr(), 2, &mut out, 1, null(), 0, null_mut()),
            0
        );
        assert!(dala_call_count() > before);
        assert_eq!(values(&out.array, 3), [11.0, 12.0, 13.0]);
        assert_eq!(*out.array.strides, 4);

        let mut twin = null_mut();
        assert_eq!(dala_tensor_clone(out.tensor, &mut twin, null_mut()), 0);
        let args = [handle(out.tensor, 1), handle(twin, 0)];
        let mut sum = no_result();
        assert_eq!(
            dala_op_run(op, args.as_ptr(), 2, &mut sum, 1, null(), 0, null_mut()),
            0
        );
        assert_eq!(values(&sum.array, 3), [22.0, 24.0, 26.0]);
        let mut seen = array(&[], &[]);
        assert_eq!(dala_tensor_view(out.tensor, &mut seen, null_mut()), 3);
        assert_eq!(dala_tensor_view(twin, &mut seen, null_mut()), 0);
        assert_eq!(values(&seen, 3), [11.0, 12.0, 13.0]);
        // One argument is missing; the frees happen all the same.
        let frees = [out.tensor, twin, sum.tensor, null_mut()];
        assert_eq!(
            dala_op_run(op, null(), 0, &mut sum, 1, frees.as_ptr(), 4, null_mut()),
            3
        );
        dala_op_free(op);
        dala_engine_free(engine);
    }
}

#[test]
fn test_a_panic_is_a_status_with_its_place() {
    let engine = engine(c"{\"fault\": \"panic:tanh\"}".as_ptr());
    let (mut op, mut out, mut err) = (null_mut(), no_result(), null_mut());
    let json = c"{\"op\": \"tanh\", \"attrs\": {}}";
    let shape = [1];
    // SAFETY: valid pointers.
    unsafe {
        assert_eq!(dala_op_new(engine, json.as_ptr(), &mut op, null_mut()), 0);
        let arg = given(&shape, &[1.0]);
        assert_eq!(
            dala_op_run(op, &arg, 1, &mut out, 1, null(), 0, &mut err),
            7
        );
        let json = CStr::from_ptr(dala_error_json(err)).to_str().unwrap();
        assert!(
            json.contains("\"op\":\"tanh\"") && json.contains("panic_location"),
            "{json}"
        );
        let message = CStr::from_ptr(dala_error_message(err)).to_str().unwrap();
        assert!(message.contains("injected fault"), "{message}");
        dala_error_free(err);
        dala_op_free(op);
        dala_engine_free(engine);
    }
}

#[test]
fn test_senseless_arrays_are_refused() {
    let engine = engine(null());
    let mut out = no_result();
    let (shape, negative) = ([2], [-2]);
    let good = array(&shape, &[1.0, 2.0]);
    let nowhere = dala_array {
        data: null_mut(),
        ..good
    };
    let dtype = dala_array { dtype: 99, ..good };
    let complex = dala_array { dtype: 13, ..good };
    let rank = dala_array { ndim: -1, ..good };
    let no_shape = dala_array {
        shape: null(),
        ..good
    };
    let less = dala_array {
        shape: negative.as_ptr(),
        ..good
    };
    // SAFETY: all of them are refused before their data are read.
    unsafe {
        for (bad, status) in [
            (nowhere, 3),
            (dtype, 3),
            (complex, 5),
            (rank, 3),
            (no_shape, 3),
            (less, 3),
        ] {
            assert_eq!(dala_tensor_new(engine, &bad, &mut out, null_mut()), status);
        }
        assert_eq!(dala_tensor_new(engine, &good, &mut out, null_mut()), 0);
        dala_tensor_free(out.tensor);
        dala_engine_free(engine);
    }
}
