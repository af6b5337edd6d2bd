"""Random numbers from explicit keys, as in JAX: the same key gives the same numbers on every device.

A key is used once; ``split`` makes new ones from it.
"""

from dala_defn.random import choosing, continuous, discrete, keys
from dala_defn.random.choosing import *  # noqa: F403
from dala_defn.random.continuous import *  # noqa: F403
from dala_defn.random.discrete import *  # noqa: F403
from dala_defn.random.keys import *  # noqa: F403

__all__: list[str] = []
__all__ += choosing.__all__
__all__ += continuous.__all__
__all__ += discrete.__all__
__all__ += keys.__all__
