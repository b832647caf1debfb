# SPDX-License-Identifier: Apache-2.0
"""Find in the syntax trees what Writewise's source must not do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.places import REPOSITORY

PACKAGES = ("contracts", "sysctl", "profiler")

_SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
_STARTS = {"run", "Popen", "call", "check_call", "check_output"}
_CODE = {"eval", "exec", "compile", "__import__"}
_UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "pty"}
_YAML_SAFE = {"compose", "parse", "safe_load", "safe_dump", "dump", "SafeLoader", "SafeDumper"}
_PREDICTABLE = {"tempfile.mktemp", "os.tempnam", "os.tmpnam"}
_WRITES = set("wax+")


def modules() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((REPOSITORY / package).rglob("*.py"))]


def findings(source: str) -> Iterator[str]:
    """Return each thing that is not allowed, with its line."""
    for node in ast.walk(ast.parse(source)):
        for what in _of_node(node):
            yield f"line {getattr(node, 'lineno', 0)}: {what}"


def _of_node(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.name for alias in node.names]
        origin = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (
            f"imports {name}" for name in [*names, *origin] if name.split(".")[0] in _UNSAFE_MODULES
        )
    if isinstance(node, ast.Call):
        yield from _of_call(node, ast.unparse(node.func))


def _of_call(call: ast.Call, name: str) -> Iterator[str]:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    shell = keywords.get("shell")
    if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
        yield "passes text to a shell"
    if name in _SHELLS:
        yield f"calls {name}"
    if name in _CODE:
        yield f"runs code with {name}"
    if name in _PREDICTABLE:
        yield f"has a predictable name by {name}"
    if name.startswith("yaml.") and name.split(".")[1] not in _YAML_SAFE:
        yield f"calls {name}, which may construct objects"
    if name.split(".")[-1] in _STARTS and call.args and _is_text(call.args[0]):
        yield "starts a program by a text, not a list"


def _is_text(node: ast.expr) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


def programs(source: str) -> Iterator[str]:
    """Return the first word of every list passed to `run`, directly or by a name."""
    tree = ast.parse(source)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for scope in [tree, *(node for node in ast.walk(tree) if isinstance(node, functions))]:
        named = _lists_by_name(scope)
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _STARTS:
                given = [each for arg in node.args for each in _lists_of(arg, named)]
                yield from (ast.unparse(each.elts[0]) for each in given if each.elts)


def _lists_by_name(scope: ast.AST) -> dict[str, list[ast.List]]:
    """Return the lists that are assigned to names in a module or function."""
    named: dict[str, list[ast.List]] = {}
    for node in ast.walk(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.List):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                named.setdefault(ast.unparse(target), []).append(node.value)
    return named


def _lists_of(argument: ast.expr, named: dict[str, list[ast.List]]) -> list[ast.List]:
    if isinstance(argument, ast.List):
        return [argument]
    return named.get(ast.unparse(argument), [])


def writing_opens(source: str) -> Iterator[str]:
    """Return functions that open a path for writing without a descriptor of its directory."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and _opens_for_writing(node):
                    yield function.name


def _opens_for_writing(call: ast.Call) -> bool:
    name = ast.unparse(call.func).split(".")
    if name[-1] in ("write_text", "write_bytes", "touch"):
        return True
    if name == ["os", "open"]:
        is_beneath = any(keyword.arg == "dir_fd" for keyword in call.keywords)
        flags = ast.unparse(call.args[1]) if len(call.args) > 1 else ""
        return not is_beneath and any(
            word in flags for word in ("WRONLY", "RDWR", "CREAT", "flags")
        )
    if name[-1] != "open" or name[0] == "os":
        return False
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    return any(isinstance(text, str) and len(text) <= 3 and set(text) & _WRITES for text in texts)
