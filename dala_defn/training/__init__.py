"""Models that train: ``Model`` and ``Sequential``, ``fit``, ``evaluate``, ``predict``, saving and export."""

from dala_defn import errors
from dala_defn.training.models import Model, Sequential

for _kind in (Model, Sequential):
    errors.boundaries(_kind)

__all__ = ["Model", "Sequential"]
