"""Settings of other tools into scenario files: what was chosen, left out and not understood is said, no shape is guessed.

A format is one module: it reads its file into a flat document, and says in tables what each of its keys means here
(:class:`~trnsim.scenario.imports.keys.Vocabulary`). What all formats share stands once: the machine, the model, the
report. :func:`import_scenario` is the whole of it.
"""

from trnsim.scenario.imports.importing import Imported, format_names, import_scenario, vocabulary_of
from trnsim.scenario.imports.options import Options

__all__ = ["Imported", "Options", "format_names", "import_scenario", "vocabulary_of"]
