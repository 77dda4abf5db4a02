"""How well the simulator predicts measured training steps."""

from trnsim.study.validation.validation import SHIPPED_TABLES, Validation, validate

__all__ = ["SHIPPED_TABLES", "Validation", "validate"]
