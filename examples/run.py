"""Run the notebooks beside this file and keep what they show: `make examples`.

python examples/run.py [NOTEBOOK…]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def executed(path: Path, seconds: int = 600) -> Any:
    """The notebook with fresh outputs, in a kernel of its own; raises where a cell does."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=seconds, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_empty(output)]
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def _is_empty(output: Any) -> bool:
    """What a bar leaves when it is gone."""
    return output.output_type == "display_data" and not any(output.data.values())


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(str(path) for path in HERE.glob("*.ipynb")):
        nbformat.write(executed(Path(name)), name)
        print(name, Path(name).stat().st_size, "bytes")
