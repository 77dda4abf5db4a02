"""The collective algorithms, one module each: a module here that has an ``ALGORITHM`` is in the registry."""
