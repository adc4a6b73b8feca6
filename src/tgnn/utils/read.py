"""Read files back: JSON and YAML of bounded size and depth, validated by a pydantic model.

Every file of tgnn that is read back has a :class:`StoredModel` or a data class with the types of its fields. To add a
field to a file, add it there with a default value.
"""

from __future__ import annotations

import errno
import json
import os
import reprlib
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json

from tgnn.utils.yaml import parse_yaml

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())
"""Configuration of stored models and data classes: no unknown keys, no conversion of types, finite numbers."""
_KEY_PROBLEMS = {
    "missing": "missing",
    "missing_argument": "missing",
    "extra_forbidden": "an unknown key",
    "unexpected_keyword_argument": "an unknown key",
}
_MAX_BYTES = {".json": 1 << 28, ".yaml": 1 << 22}


class FileFormatError(ValueError):
    """A file cannot be used. The message names the file and the field."""


class StoredModel(BaseModel):
    """Base of the models of files that are read back."""

    model_config = ConfigDict(**STRICT, frozen=True)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and validate a JSON or YAML file."""
        return validate(cls, read_content(path), path)

    def to_json(self) -> dict[str, Any]:
        """Return the keys that the file states, as built-in types."""
        return self.model_dump(mode="json", exclude_unset=True)


def validate(schema: type[T], content: Any, path: Path | str) -> T:
    """Build a model or a data class from JSON values. The error names the file and its first wrong field."""
    try:  # as JSON, because pydantic then accepts a list for a tuple
        return TypeAdapter(schema).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        raise FileFormatError(f"{path} is damaged: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """Describe the first problem of a validation: the field, what is expected and the value."""
    problem = error.errors()[0]
    field = ".".join(map(str, problem["loc"])) or "the content"
    if problem["type"] in _KEY_PROBLEMS:
        return f"{field} is {_KEY_PROBLEMS[problem['type']]}"
    message = problem["msg"].removeprefix("Value error, ").replace("Input should", "it should", 1)
    return f"{field} is {reprlib.repr(problem['input'])}, but {message}"


def read_content(path: Path, suffix: str = "") -> Any:
    """Read the content of a JSON or YAML file. ``suffix``, ``.json`` or ``.yaml``, is by default that of the path."""
    suffix = suffix or (".yaml" if path.suffix == ".yaml" else ".json")
    data = read_bytes(path, _MAX_BYTES[suffix])
    try:
        text = data.decode("utf-8-sig")
        return parse_yaml(text) if suffix == ".yaml" else parse_json(text)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not a UTF-8 text file ({error.reason})") from None
    except ValueError as error:  # a user may have written YAML, but not JSON
        raise FileFormatError(f"{path}{':' if suffix == '.yaml' else ' is damaged:'} {error}") from None


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Read a regular file of bounded size. A folder, a FIFO and a device are errors that name the file."""
    check_regular(path)
    size = path.stat().st_size
    if size > max_bytes:
        raise FileFormatError(f"{path} has {size:,} bytes, but at most {max_bytes:,} are read")
    return path.read_bytes()


def check_regular(path: Path) -> None:
    """Raise an error unless the path, or what it links to, is a regular file."""
    if path.is_symlink() and not os.path.exists(path):
        raise FileFormatError(f"{path} is a link to {os.readlink(path)}, which does not exist")
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise FileFormatError(f"{path} is {what}, but must be a file")
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Values nested more than 200 levels deep are refused with a ``ValueError``, as is invalid JSON.

    Example:
        >>> parse_json("[" * 1000)
        Traceback (most recent call last):
        ValueError: not valid JSON: recursion limit exceeded ...
    """
    try:
        return from_json(text)
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}") from None
