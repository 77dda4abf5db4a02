"""The schedules, one module each: a module here that has a ``KIND`` is in the registry."""
