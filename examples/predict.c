/* Classifies rows: `predict MODEL.dala ROWS.f32 N_ROWS ROW_LENGTH` prints the class of each row, one a line.
 * The model's first entry takes one float32 argument of shape [rows, length] and gives scores by row.
 *
 *   cc -std=c99 -Wall -Wextra -Werror -I cbridge/include examples/predict.c -L target/release -ldala -o predict
 */
#include <stdio.h>
#include <stdlib.h>

#include "dala.h"

static int fail(const char *what, dala_error *err) {
    fprintf(stderr, "predict: %s: %s\n", what, err ? dala_error_message(err) : "failed");
    dala_error_free(err);
    return 1;
}

/* Reads exactly `count` numbers, which a little-endian machine stores as the file does. */
static float *read_rows(const char *path, size_t count) {
    FILE *file = fopen(path, "rb");
    float *rows;
    if (!file) return NULL;
    rows = malloc((count ? count : 1) * sizeof *rows);
    if (rows && (fread(rows, sizeof *rows, count, file) != count || fgetc(file) != EOF)) {
        free(rows);
        rows = NULL;
    }
    fclose(file);
    return rows;
}

/* The score in one row and column of the result, whose strides are in bytes. */
static float score(const dala_array *a, int64_t row, int64_t column) {
    const char *at = (const char *)a->data + row * a->strides[0] + column * a->strides[1];
    return *(const float *)at;
}

static int classify(dala_engine *engine, const char *model, float *rows, const int64_t shape[2]) {
    dala_program *program = NULL;
    dala_error *err = NULL;
    dala_arg arg = {NULL, {DALA_F32, 2, NULL, NULL, NULL}, 0};
    dala_result result;
    int64_t row, column;

    if (dala_program_open(engine, model, &program, &err)) return fail(model, err);
    arg.array.shape = shape;
    arg.array.data = rows;
    if (dala_run(program, 0, &arg, 1, &result, 1, NULL, 0, &err)) {
        dala_program_free(program);
        return fail("run", err);
    }
    if (result.array.dtype != DALA_F32 || result.array.ndim != 2) {
        dala_tensor_free(result.tensor);
        dala_program_free(program);
        return fail("the result is not a float32 matrix of scores", NULL);
    }
    for (row = 0; row < result.array.shape[0]; row++) {
        int64_t best = 0;
        for (column = 1; column < result.array.shape[1]; column++)
            if (score(&result.array, row, column) > score(&result.array, row, best)) best = column;
        printf("%ld\n", (long)best);
    }
    dala_tensor_free(result.tensor);
    dala_program_free(program);
    return 0;
}

int main(int argc, char **argv) {
    dala_engine *engine = NULL;
    dala_error *err = NULL;
    int64_t shape[2];
    float *rows;
    int code;

    if (argc != 5) {
        fprintf(stderr, "usage: predict MODEL.dala ROWS.f32 N_ROWS ROW_LENGTH\n");
        return 2;
    }
    shape[0] = strtol(argv[3], NULL, 10);
    shape[1] = strtol(argv[4], NULL, 10);
    if (shape[0] < 0 || shape[1] < 0 || (shape[1] > 0 && shape[0] > INT32_MAX / shape[1]))
        return fail("wrong sizes", NULL);
    rows = read_rows(argv[2], (size_t)shape[0] * (size_t)shape[1]);
    if (!rows) return fail("the rows cannot be read, or are not that many", NULL);
    if (dala_engine_new("flex", NULL, &engine, &err)) {
        free(rows);
        return fail("engine", err);
    }
    code = classify(engine, argv[1], rows, shape);
    dala_engine_free(engine);
    free(rows);
    return code;
}
