# SPDX-License-Identifier: Apache-2.0
"""The tables of a fleet in Parquet, and the queries on them; the only module that imports DuckDB.

The queries are files of SQL that Athena and Spark run too. Values reach them as parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from contracts.shared.errors import RequirementError, UsageError
from contracts.shared.installation import how_to_add
from contracts.shared.text import printable
from profiler.fleet.record import HISTOGRAMS
from profiler.fleet.rows import COLUMNS, LISTS, SETTINGS

TABLES = ("records", "histograms", "predictions")
EXTRA = "fleet"
QUERIES = Path(__file__).with_name("queries")
#: Of DuckDB; what does not fit is spilled next to the tables.
_MEMORY, _THREADS = "512MB", 2
_PATTERN = frozenset("*?[]{}")


def _duckdb() -> ModuleType:
    """Return the module. Raises RequirementError if the extra is not installed."""
    try:
        import duckdb
    except ImportError:
        raise RequirementError("DuckDB is missing", how_to_add(EXTRA)) from None
    return duckdb  # type: ignore[no-any-return]


def require_engine() -> None:
    """Raise RequirementError if the extra is not installed."""
    _duckdb()


def _connect(scratch: Path | None = None) -> Any:
    """Return an engine in memory that loads nothing from elsewhere."""
    return _duckdb().connect(
        ":memory:",
        config={
            "memory_limit": _MEMORY,
            "threads": _THREADS,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": False,
            **({"temp_directory": str(scratch)} if scratch else {}),
        },
    )


def write_tables(rows: Path, scratch: Path, folder: Path) -> None:
    """Write the tables of the rows (JSON lines of `profiler.fleet.rows`) into a folder.

    Raises UsageError.
    """
    duckdb = _duckdb()
    try:
        with _connect(scratch) as connection:
            _copy_all(connection, rows, scratch)
    except duckdb.Error as error:
        reason = printable(str(error).split("\n")[0])
        raise UsageError(f"the tables cannot be written: {reason}", "check the space") from None
    for table in TABLES:
        (scratch / f"{table}.parquet").replace(folder / f"{table}.parquet")


def _copy_all(connection: Any, rows: Path, scratch: Path) -> None:
    """Write each table; names of columns are constants of this package."""
    columns = {**COLUMNS, **LISTS}
    read = "read_json(?, format = 'newline_delimited', columns = ?, maximum_object_size = 4194304)"
    connection.execute(f"CREATE TABLE seen AS SELECT * FROM {read}", [str(rows), columns])  # noqa: S608
    histograms = " UNION ALL ".join(
        f"SELECT dt, class_key, node, '{name}' AS name, unnest({name}_index) AS bucket, "  # noqa: S608
        f"unnest({name}_calls) AS calls FROM seen"
        for name in HISTOGRAMS
    )
    settings = ", ".join(f"'{name}'" for name in SETTINGS)
    predictions = (
        f"SELECT dt, class_key, node, start, unnest([{settings}]) AS setting, "  # noqa: S608
        "unnest(predicted_return_s) AS return_s, unnest(predicted_peak_bytes) AS peak_bytes "
        "FROM seen WHERE len(predicted_return_s) > 0"
    )
    selected = {
        "records": f"SELECT {', '.join(COLUMNS)} FROM seen",  # noqa: S608
        "histograms": histograms,
        "predictions": predictions,
    }
    for table, select in selected.items():
        target = scratch / f"{table}.parquet"
        connection.sql(select).write_parquet(str(target), compression="zstd")


class FleetTables:
    """The tables of a folder; a context manager. `query` runs one of the SQL files.

    Raises RequirementError without DuckDB, UsageError without the tables.
    """

    def __init__(self, folder: Path) -> None:
        missing = [name for name in TABLES if not (folder / f"{name}.parquet").is_file()]
        if missing or _PATTERN & set(str(folder)):
            reason = f"has no {missing[0]}.parquet" if missing else "has a name with a wildcard"
            raise UsageError(
                f"{printable(str(folder))} {reason}", "name the folder that `fleet ingest` wrote"
            )
        self._folder = folder
        self._errors = _duckdb().Error

    def __enter__(self) -> FleetTables:
        self._connection = _connect()
        try:
            for table in TABLES:
                path = str(self._folder / f"{table}.parquet")
                self._connection.read_parquet(path).create_view(table)
        except self._errors as error:
            self._connection.close()
            raise self._unusable(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def query(self, name: str, parameters: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Return the rows of the query `name` of `queries/`. Raises UsageError."""
        text = (QUERIES / f"{name}.sql").read_text(encoding="utf-8")
        try:
            found = self._connection.execute(text, list(parameters))
            titles = [column[0] for column in found.description]
            return [dict(zip(titles, row)) for row in found.fetchall()]
        except self._errors as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> UsageError:
        reason = printable(str(error).split("\n")[0])
        return UsageError(
            f"the tables of {printable(str(self._folder))} cannot be read: {reason}",
            "run `writewise fleet ingest` again",
        )
