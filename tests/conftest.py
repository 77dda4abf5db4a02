"""What all tests share: one hypothesis profile, deterministic and without deadlines."""

from hypothesis import settings

settings.register_profile("trnsim", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("trnsim")
