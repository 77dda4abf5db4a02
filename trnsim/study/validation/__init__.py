"""How well the simulator predicts measured training steps."""

from trnsim.study.validation.validation import SHIPPED_TABLES, VALIDATION_COLUMNS, Validation, validate

__all__ = ["SHIPPED_TABLES", "VALIDATION_COLUMNS", "Validation", "validate"]
