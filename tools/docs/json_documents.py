# SPDX-License-Identifier: Apache-2.0
"""docs/reference/json.md, from the table of the documents that `--json` prints."""

from __future__ import annotations

from profiler.cli.json_documents import DOCUMENTS, Document
from tools.docs.markdown import cell, code, table

_HEAD = """\
# JSON documents

`--json` prints one document to standard output. It begins with `schema`, its name, and `version`.
A new key does not raise the version; a key that is removed or gets another meaning does. Times end
in `_s` (seconds) or `_ns`, sizes in `_bytes`, shares in `_share` (0 to 1). Credits (`balance_after`
and the like) are in percent (0 to 100). `price` is the cost of a setting: the data at risk, for how
long, and what other programs notice; amounts of money have `usd` in their names.

[The schema of a profile](profile.schema.json) describes every field; `writewise contract schema`
prints that of a contract. [Files](files.md) of results have `format` instead of `schema`."""


def page() -> str:
    """Return docs/reference/json.md."""
    return "\n".join(
        [
            _HEAD,
            *(line for document in DOCUMENTS for line in _section(document)),
            "",
        ]
    )


def _section(document: Document) -> list[str]:
    rows = [[code(name), cell(meaning)] for name, meaning in document.keys.items()]
    head = f"`schema`: `{document.schema}`, `version`: {document.version}"
    return ["", f"## writewise {document.command}", "", head, "", *table(["Key", "Holds"], rows)]
