from pathlib import Path

import pytest
from importing import Importer


@pytest.fixture
def imported(tmp_path: Path) -> Importer:
    return Importer(tmp_path)
