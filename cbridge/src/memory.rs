//! The allocator of the library, which keeps large blocks to use them again and counts what is held; plans of memory, and
//! limits.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{CString, c_char};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use dala_runtime::error::{Error, Result};
use dala_runtime::value::Ty;
use dala_runtime::{Given, limits};
use mimalloc::MiMalloc;

use crate::array::{dala_arg, ty_of};
use crate::calls::{dala_program, some};
use crate::error::{dala_error, guard, text};
use crate::guard::{count, get, quiet, slice};

/// Blocks from this size on are counted: what is smaller describes values rather than being them.
const COUNTED: usize = 1 << 10;
/// Blocks from this size on are kept when they are freed. Their pages have been given to the process already; those of
/// fresh memory would each cost a fault.
const KEPT: usize = 1 << 15;
/// Bytes that are kept at most.
const MOST: usize = 1 << 30;
/// Sizes of kept blocks are rounded up to one of so many between powers of two.
const STEPS: usize = 8;
const CLASSES: usize = (usize::BITS as usize - KEPT.trailing_zeros() as usize) * STEPS;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Free blocks of each class, each with the address of the next in its first bytes.
struct Pool {
    free: [*mut u8; CLASSES],
    bytes: usize,
}

// SAFETY: the blocks belong to the pool alone.
unsafe impl Send for Pool {}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: [std::ptr::null_mut(); CLASSES],
    bytes: 0,
});

/// See [`POOL`].
pub struct Pooled;

/// The class of a size, and the size that all blocks of it have; none for what is too small or too large to be kept.
fn class(layout: Layout) -> Option<(usize, Layout)> {
    let size = layout.size();
    if !(KEPT..=MOST).contains(&size) {
        return None;
    }
    let power = (size - 1).ilog2() as usize; // the largest power of two below
    let step = (1 << power) / STEPS;
    let whole = size.next_multiple_of(step.max(1));
    let base = KEPT.trailing_zeros() as usize;
    // A size of KEPT itself belongs to the power below it.
    let index = (power + 1 - base) * STEPS + (whole - (1 << power)) / step.max(1) - 1;
    let layout = Layout::from_size_align(whole, layout.align()).ok()?;
    (index < CLASSES && layout.align() <= 16).then_some((index, layout))
}

/// The pool, unless somebody else holds it: waiting could last for ever in the child of a fork.
fn pool<T>(work: impl FnOnce(&mut Pool) -> T) -> Option<T> {
    for _ in 0..64 {
        if let Ok(mut pool) = POOL.try_lock() {
            return Some(work(&mut pool));
        }
        std::hint::spin_loop();
    }
    None
}

fn grown(bytes: usize) {
    if bytes >= COUNTED {
        let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if live > PEAK.load(Ordering::Relaxed) {
            PEAK.fetch_max(live, Ordering::Relaxed);
        }
    }
}

fn shrunk(bytes: usize) {
    if bytes >= COUNTED {
        LIVE.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Pooled {
    /// A kept block, if there is one.
    fn kept(&self, index: usize, size: usize) -> Option<*mut u8> {
        pool(|pool| {
            let block = pool.free[index];
            if block.is_null() {
                return None;
            }
            // SAFETY: a block of the pool starts with the address of the next.
            pool.free[index] = unsafe { block.cast::<*mut u8>().read() };
            pool.bytes -= size;
            Some(block)
        })
        .flatten()
    }
}

// SAFETY: blocks come from mimalloc, with the layout of their class, and are either handed out or in the pool.
unsafe impl GlobalAlloc for Pooled {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match class(layout) {
            Some((index, whole)) => match self.kept(index, whole.size()) {
                Some(block) => block,
                // SAFETY: the caller's promise.
                None => unsafe { MiMalloc.alloc(whole) },
            },
            // SAFETY: as above.
            None => unsafe { MiMalloc.alloc(layout) },
        };
        if !block.is_null() {
            grown(layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        shrunk(layout.size());
        if let Some((index, whole)) = class(layout) {
            let taken = pool(|pool| {
                let fits = pool.bytes + whole.size() <= MOST;
                if fits {
                    // SAFETY: the block is free, aligned for a pointer, and larger than one.
                    unsafe { block.cast::<*mut u8>().write(pool.free[index]) };
                    pool.free[index] = block;
                    pool.bytes += whole.size();
                }
                fits
            });
            if taken != Some(true) {
                // SAFETY: allocated with this layout.
                unsafe { MiMalloc.dealloc(block, whole) };
            }
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some((index, whole)) = class(layout) else {
            // SAFETY: the caller's promise.
            let block = unsafe { MiMalloc.alloc_zeroed(layout) };
            if !block.is_null() {
                grown(layout.size());
            }
            return block;
        };
        let block = match self.kept(index, whole.size()) {
            Some(block) => {
                // SAFETY: the block has that many bytes.
                unsafe { block.write_bytes(0, layout.size()) };
                block
            }
            // SAFETY: the caller's promise.
            None => unsafe { MiMalloc.alloc_zeroed(whole) },
        };
        if !block.is_null() {
            grown(layout.size());
        }
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(size, layout.align()) else {
            return std::ptr::null_mut();
        };
        let (old_class, new_class) = (class(layout), class(new));
        if old_class.is_none() && new_class.is_none() {
            // SAFETY: the caller's promise.
            let moved = unsafe { MiMalloc.realloc(block, layout, size) };
            if !moved.is_null() {
                grown(size);
                shrunk(layout.size());
            }
            return moved;
        }
        if old_class.map(|(i, _)| i) == new_class.map(|(i, _)| i) {
            grown(size);
            shrunk(layout.size());
            return block;
        }
        // SAFETY: the caller's promise; both have room for what is copied.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}

/// Bytes held in blocks of 1 KiB and more, and the most since the count was started again.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_memory_stats(live: *mut u64, peak: *mut u64, restart: i32) {
    quiet((), || {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(live) = live.as_mut() {
                *live = LIVE.load(Ordering::Relaxed) as u64;
            }
            if let Some(peak) = peak.as_mut() {
                *peak = PEAK.load(Ordering::Relaxed) as u64;
            }
        }
        if restart != 0 {
            PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    });
}

/// Gives the kept blocks back to the operating system's reach.
#[unsafe(no_mangle)]
pub extern "C" fn dala_memory_trim() {
    quiet((), || {
        for index in 0..CLASSES {
            let Some(size) = size_of_class(index) else {
                continue;
            };
            while let Some(block) = Pooled.kept(index, size) {
                if let Ok(layout) = Layout::from_size_align(size, 16) {
                    // SAFETY: blocks of this class have this size.
                    unsafe { MiMalloc.dealloc(block, layout) };
                }
            }
        }
    });
}

/// The size of the blocks of a class.
fn size_of_class(index: usize) -> Option<usize> {
    let power = index / STEPS + KEPT.trailing_zeros() as usize - 1;
    let low = 1usize.checked_shl(u32::try_from(power).ok()?)?;
    low.checked_add((low / STEPS).checked_mul(index % STEPS + 1)?)
}

/// The limit of this thread; gives what it was.
#[unsafe(no_mangle)]
pub extern "C" fn dala_memory_limit(bytes: u64) -> u64 {
    count();
    limits::set_memory_limit(usize::try_from(bytes).unwrap_or(usize::MAX)) as u64
}

/// The limit of a program.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_limit_memory(
    program: *mut dala_program,
    bytes: u64,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            let program = get(program, "program")?;
            program
                .loaded
                .limit_memory(usize::try_from(bytes).unwrap_or(usize::MAX));
            Ok(())
        })
    }
}

/// What a run would hold.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_program_memory(
    program: *mut dala_program,
    entry: i32,
    args: *const dala_arg,
    n_args: usize,
    out: *mut *mut c_char,
    err: *mut *mut dala_error,
) -> i32 {
    // SAFETY: the caller's promise, here and inside.
    unsafe {
        guard(err, || {
            some(out, "out")?;
            let program = get(program, "program")?;
            let entry = usize::try_from(entry)
                .map_err(|_| Error::argument(format!("there is no entry {entry}")))?;
            let args = slice(args, n_args, "args")?;
            let args = args.iter().map(|arg| given(arg));
            let args = args.collect::<Result<Vec<(Ty, Given)>>>()?;
            let json = program.loaded.memory(entry, &args)?;
            out.write(text(&json).into_raw());
            Ok(())
        })
    }
}

/// # Safety
/// The argument is as `dala.h` says.
unsafe fn given(arg: &dala_arg) -> Result<(Ty, Given)> {
    let donated = arg.flags & crate::array::DONATE != 0;
    let kept = if donated { Given::Donated } else { Given::Kept };
    // SAFETY: the caller's promise.
    unsafe {
        if !arg.tensor.is_null() {
            return Ok((get(arg.tensor, "tensor")?.tensor().ty().clone(), kept));
        }
        let lent = !arg.array.data.is_null();
        Ok((ty_of(&arg.array)?, if lent { Given::Lent } else { kept }))
    }
}

/// Releases a text.
///
/// # Safety
/// As in `dala.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dala_text_free(text: *mut c_char) {
    quiet((), || {
        if !text.is_null() {
            // SAFETY: made by `dala_program_memory`, and not freed.
            drop(unsafe { CString::from_raw(text) });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 4).unwrap()
    }

    #[test]
    fn test_blocks_of_a_class_are_large_enough_and_little_larger() {
        assert!(class(layout(KEPT - 1)).is_none());
        assert!(class(layout(MOST + 1)).is_none());
        let mut last = None;
        for size in (KEPT..KEPT * 9).step_by(97).chain([KEPT, 1 << 20, MOST]) {
            let (index, whole) = class(layout(size)).unwrap();
            assert!(
                whole.size() >= size && whole.size() <= size + size / 4,
                "{size}"
            );
            assert_eq!(size_of_class(index), Some(whole.size()), "{size}");
            last = last.max(Some(index));
        }
        assert!(last < Some(CLASSES));
    }

    #[test]
    fn test_a_freed_block_is_used_again_and_zeros_are_zeros() {
        // SAFETY: layouts match.
        unsafe {
            let size = KEPT * 7 + 13;
            let first = Pooled.alloc(layout(size));
            first.write_bytes(7, size);
            Pooled.dealloc(first, layout(size));
            let again = Pooled.alloc_zeroed(layout(size));
            assert!(
                std::slice::from_raw_parts(again, size)
                    .iter()
                    .all(|b| *b == 0)
            );
            let grown = Pooled.realloc(again, layout(size), size * 3);
            assert!(
                std::slice::from_raw_parts(grown, size)
                    .iter()
                    .all(|b| *b == 0)
            );
            let small = Pooled.realloc(grown, layout(size * 3), 100);
            assert!(
                std::slice::from_raw_parts(small, 100)
                    .iter()
                    .all(|b| *b == 0)
            );
            Pooled.dealloc(small, layout(100));
        }
    }
}
