"""The database fixtures are shared with the agent's tests and stand in `tests/conftest.py`."""

from tests.conftest import passable_folder

__all__ = ["passable_folder"]
