"""Makes the project's own module importable, however pytest is started."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
