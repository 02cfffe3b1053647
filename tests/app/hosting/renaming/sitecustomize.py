"""Rename one name in all of Streamlit's sources as they are imported.

Python imports this module at its start if its folder is on the path. The environment names the name
in RENAMED. The new name is as long as the old one, so that serialized descriptors stay valid.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

_NAME = os.environ.get("RENAMED", "")
_NEW = _NAME[:-1] + "X"
# Not the modules of these names.
_IN_CODE = re.compile(rf"(?<!\w)(?<!runtime\.){_NAME}(?!\w)")
_IN_DESCRIPTORS = re.compile(_NAME)


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        data = self.get_data(self.path)
        if _NAME.encode() not in data:
            return super().get_code(fullname)
        source = data.decode()
        pattern = _IN_DESCRIPTORS if self.path.endswith("_pb2.py") else _IN_CODE
        renamed = pattern.sub(_NEW, source)
        if renamed == source:
            return super().get_code(fullname)
        return compile(renamed, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("streamlit."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


if _NAME:
    sys.meta_path.insert(0, _Finder())
