"""The reference page is what the package says of itself, both faces are one, and the stub is what was built."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import thalweg
from conftest import TREE
from thalweg import _thalweg, aio

PAGE = TREE / "docs" / "reference" / "python.md"
STUB = TREE / "bindings" / "python" / "python" / "thalweg" / "_thalweg.pyi"


def test_the_page_is_up_to_date():
    made = subprocess.run([sys.executable, str(TREE / "bindings/python/reference.py")], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    assert made.stdout == PAGE.read_text(), "python bindings/python/reference.py > docs/reference/python.md"


def test_every_public_name_is_in_the_page():
    page = PAGE.read_text()
    names = [name for name in thalweg.__all__ if not name.startswith("_") and name != "connect"]
    assert not [name for name in names if f"## `{name}`" not in page]


def parameters(function) -> list[tuple[str, object]]:
    return [(it.name, it.default) for it in inspect.signature(function).parameters.values()]


def test_both_faces_have_the_same_names_and_parameters():
    for name in ("Client", "Subscription", "PresenceSubscription"):
        ours, theirs = getattr(thalweg, name), getattr(aio, name)
        public = {it for it in dir(ours) if not it.startswith("_")}
        assert public == {it for it in dir(theirs) if not it.startswith("_")}
        for method in public:
            if not isinstance(getattr(ours, method), property):
                assert parameters(getattr(ours, method)) == parameters(getattr(theirs, method)), (name, method)


def test_the_stub_is_what_was_built():
    def stubbed(body) -> set[str]:
        return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}

    def built(of) -> set[str]:
        return {name for name in vars(of) if not name.startswith("__")}

    tree = ast.parse(STUB.read_text())
    assert stubbed(tree.body) == built(_thalweg)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(_thalweg, node.name), Exception):
            assert stubbed(node.body) - {"__init__"} == built(getattr(_thalweg, node.name)), node.name
