"""Models that train: ``Model`` and ``Sequential``, ``fit``, ``evaluate``, ``predict``, saving and export."""

from dala_defn.training.models import Model, Sequential

__all__ = ["Model", "Sequential"]
