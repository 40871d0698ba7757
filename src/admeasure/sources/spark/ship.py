"""The code that executors run, sent to them: a zip of the few modules that encode and count.

So the executors run exactly the code of the driver, and `admeasure` need not be installed on them.
They need Python of the driver's minor version with numpy, pyarrow, pydantic and narwhals.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = Path(__file__).resolve().parents[2]
MODULES = (
    "__init__.py",
    "domain.py",
    "errors.py",
    "extras.py",
    "joints.py",
    "late.py",
    "limits.py",
    "sparse.py",
    "unit.py",
    "untrusted.py",
    "schema/*.py",
    "sources/__init__.py",
    "sources/cells.py",
    "sources/count.py",
    "sources/spark/__init__.py",
    "sources/spark/codes.py",
    "sources/spark/digits.py",
    "sources/spark/task.py",
    "sources/spark/values.py",
)

_shipped: dict[str, Path] = {}


def archive(folder: Path) -> Path:
    """Write the zip; its name is that of its content."""
    files = sorted({path for pattern in MODULES for path in PACKAGE.glob(pattern)})
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    target = folder / f"admeasure-{digest[:16]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in files:
            zipped.write(path, path.relative_to(PACKAGE.parent))
    return target


def ship(session: SparkSession) -> None:
    """Once for each application."""
    remote: Any = session
    is_connect = type(session).__module__.startswith("pyspark.sql.connect")
    key = str(remote.session_id) if is_connect else str(session.sparkContext.applicationId)
    if key in _shipped:
        return
    folder = Path(tempfile.mkdtemp(prefix="admeasure-code-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _shipped[key] = archive(folder)
    if is_connect:
        remote.addArtifacts(str(_shipped[key]), pyfile=True)
    else:
        session.sparkContext.addPyFile(str(_shipped[key]))
