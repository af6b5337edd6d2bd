"""The public functions over arrays, with NumPy's names; each works eagerly and inside ``@defn``.

Every file lists its own in ``__all__``.
"""

from dala_defn.functions import (
    aliases,
    arithmetic,
    bits,
    complexes,
    contraction,
    counting,
    creation,
    cumulative,
    elementwise,
    general,
    grids,
    indexing,
    joining,
    linear,
    misc,
    reduce,
    sets,
    shape,
    sorting,
    statistics,
    types,
    updates,
)
from dala_defn.functions.aliases import *  # noqa: F403
from dala_defn.functions.arithmetic import *  # noqa: F403
from dala_defn.functions.bits import *  # noqa: F403
from dala_defn.functions.complexes import *  # noqa: F403
from dala_defn.functions.contraction import *  # noqa: F403
from dala_defn.functions.counting import *  # noqa: F403
from dala_defn.functions.creation import *  # noqa: F403
from dala_defn.functions.cumulative import *  # noqa: F403
from dala_defn.functions.elementwise import *  # noqa: F403
from dala_defn.functions.general import *  # noqa: F403
from dala_defn.functions.grids import *  # noqa: F403
from dala_defn.functions.indexing import *  # noqa: F403
from dala_defn.functions.joining import *  # noqa: F403
from dala_defn.functions.linear import *  # noqa: F403
from dala_defn.functions.misc import *  # noqa: F403
from dala_defn.functions.reduce import *  # noqa: F403
from dala_defn.functions.sets import *  # noqa: F403
from dala_defn.functions.shape import *  # noqa: F403
from dala_defn.functions.sorting import *  # noqa: F403
from dala_defn.functions.statistics import *  # noqa: F403
from dala_defn.functions.types import *  # noqa: F403
from dala_defn.functions.updates import *  # noqa: F403

__all__: list[str] = []
__all__ += aliases.__all__
__all__ += arithmetic.__all__
__all__ += bits.__all__
__all__ += complexes.__all__
__all__ += contraction.__all__
__all__ += counting.__all__
__all__ += creation.__all__
__all__ += cumulative.__all__
__all__ += elementwise.__all__
__all__ += general.__all__
__all__ += grids.__all__
__all__ += indexing.__all__
__all__ += joining.__all__
__all__ += linear.__all__
__all__ += misc.__all__
__all__ += reduce.__all__
__all__ += sets.__all__
__all__ += shape.__all__
__all__ += sorting.__all__
__all__ += statistics.__all__
__all__ += types.__all__
__all__ += updates.__all__
