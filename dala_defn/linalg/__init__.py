"""Linear algebra, with the names of NumPy and the Array API, and of SciPy where they have none.

What NumPy raises as LinAlgError for values (a matrix without an inverse, or one that is not positive definite) gives
NaN here, in every executor: a graph cannot raise it.
"""

from dala_defn.functions.contraction import kron, matrix_transpose, vecdot
from dala_defn.functions.linear import matmul, outer, tensordot
from dala_defn.linalg.expm import expm
from dala_defn.linalg.least import cond, lstsq, matrix_rank, pinv
from dala_defn.linalg.norms import matrix_norm, norm, vector_norm
from dala_defn.linalg.products import cross, diagonal, matrix_power, multi_dot, trace
from dala_defn.linalg.solving import (
    cholesky,
    det,
    inv,
    lu,
    lu_factor,
    lu_solve,
    qr,
    slogdet,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from dala_defn.linalg.spectra import eig, eigh, eigvals, eigvalsh, svd, svdvals

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "inv",
    "kron",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
