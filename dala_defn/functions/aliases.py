"""Second names: the Array API's, and NumPy's own doubles."""

from dala_defn.functions import arithmetic as A
from dala_defn.functions import elementwise as E
from dala_defn.functions import shape as S

abs = E.absolute
acos = E.arccos
acosh = E.arccosh
around = E.round
asin = E.arcsin
asinh = E.arcsinh
atan = E.arctan
atan2 = E.arctan2
atanh = E.arctanh
bitwise_invert = E.bitwise_not
bitwise_left_shift = E.left_shift
bitwise_right_shift = E.right_shift
concat = S.concatenate
degrees = A.rad2deg
invert = E.bitwise_not
permute_dims = S.transpose
pow = E.power
radians = A.deg2rad
true_divide = E.divide

__all__ = [
    "abs",
    "acos",
    "acosh",
    "around",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "concat",
    "degrees",
    "invert",
    "permute_dims",
    "pow",
    "radians",
    "true_divide",
]
