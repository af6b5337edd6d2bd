/* The C interface of the Dala runtime.
 *
 * Rules that hold for every function here:
 *  - a status is returned, results come through out-parameters, and on failure *err (when err is not NULL) owns an
 *    error to be released with dala_error_free;
 *  - nothing unwinds into the caller: a panic of the library is the status DALA_PANIC;
 *  - handles may be used from any thread; one handle must not be freed while another thread uses it;
 *  - every *_free takes NULL.
 */
#ifndef DALA_H
#define DALA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DALA_ABI_VERSION 1

typedef int32_t dala_status;
enum {
    DALA_OK = 0,
    DALA_INVALID_FILE = 1,     /* the container: truncated, wrong digest, bad header */
    DALA_INVALID_PROGRAM = 2,  /* the graph does not verify */
    DALA_INVALID_ARGUMENT = 3, /* a wrong count, dtype, shape, handle or name */
    DALA_RUNTIME_ERROR = 4,    /* an operation failed while running, such as an index out of range */
    DALA_UNSUPPORTED = 5,      /* the engine cannot do this */
    DALA_OUT_OF_MEMORY = 6,    /* the run would pass the engine's memory limit */
    DALA_PANIC = 7,            /* a bug inside the library; the process goes on */
    DALA_IO_ERROR = 8,         /* the file could not be read */
    DALA_INTERRUPTED = 9       /* the handler wanted the run to stop */
};

/* Element types. A key is held as uint32 with one more, last dimension of 2: an array of dtype DALA_KEY has that
 * dimension in its shape and strides. */
typedef int32_t dala_dtype;
enum {
    DALA_BOOL = 0, DALA_I8 = 1, DALA_I16 = 2, DALA_I32 = 3, DALA_I64 = 4,
    DALA_U8 = 5, DALA_U16 = 6, DALA_U32 = 7, DALA_U64 = 8,
    DALA_F16 = 9, DALA_BF16 = 10, DALA_F32 = 11, DALA_F64 = 12,
    DALA_C64 = 13, DALA_C128 = 14, DALA_KEY = 15, DALA_TOKEN = 16
};

typedef struct dala_engine dala_engine;
typedef struct dala_program dala_program;
typedef struct dala_op dala_op;
typedef struct dala_tensor dala_tensor;
typedef struct dala_error dala_error;

/* An array in the caller's memory, or a view of a tensor in host memory. */
typedef struct {
    dala_dtype dtype;
    int32_t ndim;
    const int64_t *shape;
    const int64_t *strides; /* in bytes, may be 0 or negative; NULL means dense, row-major */
    void *data;             /* NULL when the tensor is not in host memory, or has no elements */
} dala_array;

enum { DALA_ARG_DONATE = 1 };

/* One argument: a tensor when `tensor` is not NULL, else `array`, which is read during the call only and never
 * written. DALA_ARG_DONATE gives the tensor's storage up to the run: afterwards the handle is empty (it must
 * still be freed). A run that fails leaves donated tensors as they were. */
typedef struct {
    dala_tensor *tensor;
    dala_array array;
    int32_t flags;
} dala_arg;

/* One result: the caller owns `tensor`; `array` describes it and lives as long as it does. */
typedef struct {
    dala_tensor *tensor;
    dala_array array;
} dala_result;

int32_t dala_abi_version(void);

/* Number of calls made through this interface since the library was loaded, this one not counted. */
uint64_t dala_call_count(void);

/* Makes an engine. `name` is "flex" (CPU), or "flex-autodiff": slower, it can run dala_gradient. `options` is JSON or NULL: {"memory_limit": BYTES}, the most bytes that a
 * run may hold at a time (without it 80 % of the machine's memory). For tests there is {"fault": "panic:OP"}: every
 * execution of the op OP panics. */
dala_status dala_engine_new(const char *name, const char *options, dala_engine **out, dala_error **err);
void dala_engine_free(dala_engine *engine);

/* Loads a program from the bytes of a .dala file. `bytes` is not kept. */
dala_status dala_program_load(dala_engine *engine, const uint8_t *bytes, size_t len, dala_program **out,
                              dala_error **err);
/* Maps the file at `path` (UTF-8) and loads it; each tensor is checked when it is first used. When there is a file
 * `path`.sig, it must be the file's signature, by whatever key it names: else nothing is loaded. */
dala_status dala_program_open(dala_engine *engine, const char *path, dala_program **out, dala_error **err);
/* The same for files that must be signed by one of `n_trusted` public keys, DALA_KEY_BYTES each, one after another. */
dala_status dala_program_open_trusted(dala_engine *engine, const char *path, const uint8_t *trusted,
                                      size_t n_trusted, dala_program **out, dala_error **err);
/* dala_program_load with the content of the file's .sig (NULL: there is none). With n_trusted = 0 any signer will do,
 * and no signature too. */
dala_status dala_program_load_signed(dala_engine *engine, const uint8_t *bytes, size_t len, const uint8_t *signature,
                                     size_t signature_len, const uint8_t *trusted, size_t n_trusted,
                                     dala_program **out, dala_error **err);
void dala_program_free(dala_program *program);

/* The program's entries, arguments and results as JSON, NUL-terminated; lives as long as the program. */
const char *dala_program_info(const dala_program *program);
/* The index of an entry, or -1. */
int32_t dala_program_entry(const dala_program *program, const char *name);

/* Runs an entry. `args` are its arguments in order without those of role "state:..." (the program holds these);
 * `results` receives its results in order without those of role "state:..." (which update the program's).
 * `frees` are tensors to release first, as dala_tensor_free would: it lets releases ride along with a run.
 * The frees take effect even when the run fails. */
dala_status dala_run(dala_program *program, int32_t entry, const dala_arg *args, size_t n_args,
                     dala_result *results, size_t n_results, dala_tensor *const *frees, size_t n_frees,
                     dala_error **err);

/* Runs an entry that replaces no state, and Burn's own backward pass over what it ran; on the engine "flex-autodiff".
 * `results` receives the entry's results, then a gradient for each of the `n_wrt` arguments that `wrt` numbers: that of
 * the sum of result `output` times `cotangent`, a value of its type. NULL stands for 1, for a scalar. Nothing is
 * donated. `n_results` counts the gradients too. */
dala_status dala_gradient(dala_program *program, int32_t entry, const dala_arg *args, size_t n_args, int32_t output,
                          const dala_arg *cotangent, const int32_t *wrt, size_t n_wrt, dala_result *results,
                          size_t n_results, dala_tensor *const *frees, size_t n_frees, dala_error **err);

/* How much memory a run of an entry holds, as it will be executed: *json is to be released with dala_text_free. Of each
 * argument only the type counts, and how it comes: as a tensor (a `tensor`, or an `array` without data), to be donated by
 * its flags or not, or as an `array` with data.
 * {"peak", "arguments", "constants", "results": BYTES, "at": {"op", "location"} or null,
 *  "buffers": [{"bytes", "role", "name", "type", "location"}], "others": {"count", "bytes"}}: the buffers are those that
 * are held at the peak, the largest first; a role is "argument", "constant", "value" or "scratch". */
dala_status dala_program_memory(dala_program *program, int32_t entry, const dala_arg *args, size_t n_args, char **json,
                                dala_error **err);
void dala_text_free(char *text);
/* The most bytes that a run of the program may hold at a time, what it is given counted in; a run that would hold more
 * is refused before it starts (DALA_OUT_OF_MEMORY). The engine's limit stays. */
dala_status dala_program_limit_memory(dala_program *program, uint64_t bytes, dala_error **err);
/* The same for whatever the calling thread runs; UINT64_MAX is no limit. Gives what it was before. */
uint64_t dala_memory_limit(uint64_t bytes);
/* Bytes that the library holds in blocks of 1 KiB and more, and the most of them since the last call with `restart`;
 * either may be NULL. Freed blocks do not count, though they are kept to be used again, up to 1 GiB: dala_memory_trim
 * lets go of them. */
void dala_memory_stats(uint64_t *live, uint64_t *peak, int32_t restart);
void dala_memory_trim(void);

/* Copies out, or replaces, a tensor of the program's state by its path. */
dala_status dala_program_get_state(dala_program *program, const char *path, dala_result *result, dala_error **err);
dala_status dala_program_set_state(dala_program *program, const char *path, const dala_arg *value, dala_error **err);

/* One operation by name, for use without a program: shapes are those of the arguments of each run.
 * `json` is {"op": NAME, "attrs": {...}} with the attributes' encoding of docs/format.md. */
dala_status dala_op_new(dala_engine *engine, const char *json, dala_op **out, dala_error **err);
void dala_op_free(dala_op *op);
dala_status dala_op_run(dala_op *op, const dala_arg *args, size_t n_args, dala_result *results, size_t n_results,
                        dala_tensor *const *frees, size_t n_frees, dala_error **err);

/* Copies an array of the caller into a new tensor. */
dala_status dala_tensor_new(dala_engine *engine, const dala_array *array, dala_result *out, dala_error **err);
/* A second handle to the same storage. */
dala_status dala_tensor_clone(const dala_tensor *tensor, dala_tensor **out, dala_error **err);
/* Describes a tensor; the description lives as long as the tensor. */
dala_status dala_tensor_view(const dala_tensor *tensor, dala_array *out, dala_error **err);
void dala_tensor_free(dala_tensor *tensor);

/* What a program does besides computing, and whether a long run shall go on, is asked of the process' handler, on the
 * thread that runs the program. `kind` is
 *   "print"     shows `values` in the template `name`, where {0}, {1} ... stand for them;
 *   "tap"       shows `values` under `name`;
 *   "callback"  computes what is called `name`: each of `results` has a dense `array` of zeros, to whose `data` the
 *               handler writes; its `tensor` is NULL and stays so;
 *   "poll"      does nothing; a loop asks it now and then, at most every 50 ms or so.
 * `values` may be read, and `results` written, until the handler returns. Anything but 0 stops the run: "poll" with
 * DALA_INTERRUPTED, the others with DALA_RUNTIME_ERROR (code "handler"); arguments and state are then as they were.
 * Without a handler "print" writes to standard error, "tap" does nothing, "callback" is DALA_UNSUPPORTED and there is
 * no "poll". A handler may call this library, but must not start a run that replaces state of a program whose run
 * called it: that fails (code "busy"). It may be called from several threads at a time. */
typedef int32_t (*dala_handler)(void *user, const char *kind, const char *name, const dala_array *values,
                                size_t n_values, dala_result *results, size_t n_results);
/* Sets the handler of the process; NULL takes it away. `user` is handed to every call of it. A call under way still
 * ends in the handler before. */
void dala_set_handler(dala_handler handler, void *user);

/* A native kernel computes what a `fused` node stands for. `data` are its operands, then its results; `extents` those of
 * its space; `strides`, in bytes, those of each operand and then each result along each axis of the space (row after
 * row), 0 along axes that it does not have. The call computes the part [begin, end) of the leading axes that may be
 * split, counted as one; it touches nothing outside of the extents, and different parts may run on different threads.
 * In a graph of elementwise ops a result may be the very memory of an operand of the same type and axes, so read what
 * some elements need before writing them. Anything but 0 fails the run; a kernel of elementwise ops has no reason to, and
 * if it does all the same, state that the run was replacing is lost. */
#define DALA_KERNEL_ABI 1
typedef int32_t (*dala_kernel)(void *const *data, const int64_t *extents, const int64_t *strides, int64_t begin,
                               int64_t end);
/* Makes a kernel known, for the plans that the process makes from then on; it must never be unloaded. `kernel` is a
 * dala_kernel, `abi_version` the DALA_KERNEL_ABI it was made for: another one is refused. `name` is the node's key and
 * what the kernel takes for granted: KEY:OPERANDS->RESULTS/RANK/PARALLEL, where an operand or result is its dtype and
 * the axis of each of its dims, as in "3f9c:f32[0,1];f32[-1,1]->f32[0,1]/2/1". A file may lie about a key; only a node
 * with this name gets the kernel. */
dala_status dala_kernel_register(const char *name, void *kernel, uint32_t abi_version, dala_error **err);

/* Signatures (Ed25519) of .dala files: docs/format.md. Keys are DALA_KEY_BYTES bytes; whoever has the private key can
 * sign, the public key says who did. `bytes` is a .dala file, of which the header is enough. */
enum { DALA_KEY_BYTES = 32, DALA_SIGNATURE_BYTES = 104 };
/* A new private key, from the randomness of the operating system. */
dala_status dala_private_key_new(uint8_t *private_key, dala_error **err);
dala_status dala_public_key(const uint8_t *private_key, uint8_t *public_key, dala_error **err);
/* Writes what belongs into the .sig file, DALA_SIGNATURE_BYTES bytes. */
dala_status dala_sign(const uint8_t *bytes, size_t len, const uint8_t *private_key, uint8_t *signature,
                      dala_error **err);
/* Checks a signature, as loading does, and writes the signer's public key. With n_trusted = 0 any signer will do. */
dala_status dala_signature_verify(const uint8_t *bytes, size_t len, const uint8_t *signature, size_t signature_len,
                                  const uint8_t *trusted, size_t n_trusted, uint8_t *signer, dala_error **err);

dala_status dala_error_status(const dala_error *err);
/* One line for a person. */
const char *dala_error_message(const dala_error *err);
/* {"status", "code", "message", "op", "node", "location": {"file","line","column","function"}, "details": {...}} */
const char *dala_error_json(const dala_error *err);
void dala_error_free(dala_error *err);

#ifdef __cplusplus
}
#endif
#endif
