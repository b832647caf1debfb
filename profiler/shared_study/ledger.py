# SPDX-License-Identifier: Apache-2.0
"""The ledger of shared studies in PostgreSQL, through Optuna's storage; nothing else imports it.

A claim is a trial of Optuna: RUNNING while a node works on it, COMPLETE with its result, FAIL once
its node was lost. Optuna's own sampler and `ask` are not used, because workers that propose on
their own propose the same. The transaction of an advisory lock covers reading the ledger, choosing,
and making the trial. After that the lock's own connection is used once more: if it was lost in
between, so was the lock, and the claim is given back.

Heartbeats are experimental in Optuna, and its documentation excludes trials made like these; what
is used here works with version 5 (`tests/postgresql/`). A trial without any heartbeat never becomes
stale for Optuna, so the first one is recorded for it by whoever finds it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from contracts.shared.errors import RequirementError, UsageError, WritewiseError
from contracts.shared.installation import how_to_add
from contracts.shared.text import printable, quoted
from profiler.shared_study.address import LedgerAddress
from profiler.shared_study.refusals import explain
from sysctl.fleet.claims import Claim, ClaimState, Due, Record
from sysctl.fleet.records import claim_to_json, record_of, runs_to_json
from sysctl.fleet.spec import StudySpec, spec_from_json
from sysctl.fleet.summary import RunSummary

EXTRA = "study"
#: Optuna counts both in whole seconds.
HEARTBEAT_S, GRACE_S = 10, 60
_SPEC, _CLAIM, _RUNS, _LATE, _KEY = "spec", "claim", "runs", "late", "key"
_CONNECT_TIMEOUT_S, _STATEMENT_TIMEOUT_MS = 10, 30_000
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(:study, 0))"
_CLAIMS = """
SELECT t.trial_id, t.state::text,
  left(c.value_json, 65536), left(r.value_json, 65536), left(l.value_json, 65536)
FROM trials t
LEFT JOIN trial_user_attributes c ON c.trial_id = t.trial_id AND c.key = 'claim'
LEFT JOIN trial_user_attributes r ON r.trial_id = t.trial_id AND r.key = 'runs'
LEFT JOIN trial_user_attributes l ON l.trial_id = t.trial_id AND l.key = 'late'
WHERE t.study_id = :study AND t.trial_id >= :first
"""
_COUNT = "SELECT count(*) FROM trials WHERE study_id = :study"
_LEAST_ID = -(2**31)
_UNFINISHED = ("RUNNING", "WAITING")
_WITHOUT_HEARTBEAT = (
    "SELECT t.trial_id FROM trials t LEFT JOIN trial_heartbeats h USING (trial_id) "
    "WHERE t.study_id = :study AND t.state = 'RUNNING' AND h.trial_id IS NULL"
)


class LedgerError(WritewiseError):
    """The ledger refused something, or does not have it."""


class UnreachableError(LedgerError):
    """The ledger cannot be reached now; later it may be."""


class RefusedStudyError(LedgerError):
    """A study of the ledger cannot be read: it is damaged or forged."""


@dataclass(frozen=True)
class LedgerEntry:
    """A record of the ledger with the id of its trial."""

    trial_id: int
    record: Record


@dataclass
class Ledger:
    """One study in the ledger. `broken` is the number of trials that could not be read.

    `heartbeat_s` and `grace_s` must be the same on all nodes.
    """

    address: LedgerAddress
    name: str
    heartbeat_s: int = HEARTBEAT_S
    grace_s: int = GRACE_S
    broken: int = field(default=0, init=False)
    _opened: Any = field(default=None, init=False, repr=False)
    _study: Any = field(default=None, init=False, repr=False)
    _finished: dict[int, Record | None] = field(default_factory=dict, init=False, repr=False)
    _first_unfinished: int = field(default=0, init=False, repr=False)

    def create(self, spec: StudySpec) -> None:
        """Make the tables, if they are missing, and the study. Raises LedgerError."""
        import optuna

        with _ledger_errors(self.address):
            storage = _storage(self.address, self.heartbeat_s, self.grace_s, makes_tables=True)
            try:
                study = optuna.create_study(storage=storage, study_name=self.name)
            except optuna.exceptions.DuplicatedStudyError:
                raise UsageError(
                    f"the study {quoted(self.name)} exists", "choose another name with --study"
                ) from None
            study.set_user_attr(_SPEC, spec.to_json())

    def spec(self) -> StudySpec:
        """Return what the study tries. Raises LedgerError, RefusedStudyError if it is invalid."""
        with _ledger_errors(self.address):
            data = self._loaded().user_attrs.get(_SPEC)
        try:
            spec = spec_from_json(data)
        except ValueError as error:
            raise RefusedStudyError(
                f"the study {quoted(self.name)} is refused: {printable(str(error))[:400]}",
                "the ledger is damaged or forged: check who can write to it, create a new study",
            ) from None
        if spec.name != self.name:
            text = f"the study {quoted(self.name)} has the values of another one"
            raise RefusedStudyError(text)
        return spec

    def entries(self) -> list[LedgerEntry]:
        """Return all claims in their order; those that cannot be read are counted in `broken`."""
        with _ledger_errors(self.address):
            unfinished = self._unfinished()  # which adds to the finished ones
        found = {**self._finished, **unfinished}
        self.broken = sum(record is None for record in found.values())
        return [
            LedgerEntry(trial_id, record) for trial_id, record in sorted(found.items()) if record
        ]

    def records(self) -> list[Record]:
        """Return the same without the ids."""
        return [entry.record for entry in self.entries()]

    def claim(
        self, choose: Callable[[Sequence[Record]], Due], make: Callable[[Due], Claim | None]
    ) -> tuple[Due, int]:
        """Choose from the ledger, and claim what `make` returns of it, in one transaction.

        Returns the choice and the id of the trial, 0 without a claim.
        """
        with _ledger_errors(self.address), self._locked() as still_locked:
            due = choose(self.records())
            claim = make(due)
            if claim is None:
                return due, 0
            trial_id = self._add(claim, "RUNNING", {})
            try:
                self._storage.record_heartbeat(trial_id)
                still_locked()
            except BaseException:
                with contextlib.suppress(Exception):  # else it becomes stale
                    self.lose(trial_id)
                raise
        return due, trial_id

    def beat(self, trial_id: int) -> None:
        """Record that the node of a claim is alive."""
        with _ledger_errors(self.address):
            self._storage.record_heartbeat(trial_id)

    def lose(self, trial_id: int) -> None:
        """Give a claim back, if it is still running."""
        import optuna

        state = optuna.trial.TrialState.FAIL
        with (
            _ledger_errors(self.address),
            contextlib.suppress(optuna.exceptions.UpdateFinishedTrialError),
        ):
            self._storage.set_trial_state_values(trial_id, state)

    def tell(self, trial_id: int, claim: Claim, runs: Sequence[RunSummary]) -> bool:
        """Report the result of a claim, once; return False if it was late.

        A claim that was lost in the meantime gets a trial of its own, because Optuna refuses
        values for one that has failed.
        """
        import optuna

        content = runs_to_json(runs)
        state = optuna.trial.TrialState.COMPLETE
        with _ledger_errors(self.address):
            try:
                self._storage.set_trial_user_attr(trial_id, _RUNS, content)
                if self._storage.set_trial_state_values(trial_id, state, [_value(runs)]):
                    return True
            except (optuna.exceptions.UpdateFinishedTrialError, KeyError):
                pass  # RUNNING no longer: lost, or told by an attempt whose answer was lost
            self.adopt(claim, runs)
            return False

    def adopt(self, claim: Claim, runs: Sequence[RunSummary]) -> bool:
        """Add a result that was never told; return whether the ledger did not have it yet."""
        with _ledger_errors(self.address), self._locked() as still_locked:
            told = {r.claim.key for r in self.records() if r.state is ClaimState.TOLD}
            if claim.key in told:
                return False
            still_locked()
            more = {_RUNS: runs_to_json(runs), _LATE: True}
            self._add(claim, "COMPLETE", more, _value(runs))
            return True

    def fail_stale(self) -> None:
        """Give back the claims of nodes that have not been heard of for the time of grace."""
        import optuna
        import sqlalchemy

        with _ledger_errors(self.address), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            study = self._loaded()
            with self._storage.engine.connect() as connection:
                silent = connection.execute(
                    sqlalchemy.text(_WITHOUT_HEARTBEAT), {"study": study._study_id}
                )
                without = [row[0] for row in silent]
            for trial_id in without:
                self._storage.record_heartbeat(trial_id)
            optuna.storages.fail_stale_trials(study)

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.engine.dispose()

    # --- Optuna -----------------------------------------------------------------------------

    @property
    def _storage(self) -> Any:
        if self._opened is None:
            self._opened = _storage(self.address, self.heartbeat_s, self.grace_s)
        return self._opened

    def _loaded(self) -> Any:
        """Return the study of Optuna."""
        if self._study is None:
            import optuna

            try:
                self._study = optuna.load_study(study_name=self.name, storage=self._storage)
            except KeyError:
                raise UsageError(
                    f"{self.address} has no study {quoted(self.name)}",
                    "`writewise study status` lists the studies",
                ) from None
        return self._study

    def _unfinished(self) -> dict[int, Record | None]:
        """Return the records that can still change, and keep those that no longer can.

        A query of our own: Optuna's cache has one trial for each number, so one that is forged with
        the number of another would hide it. One with a large id would hide all later ones: if some
        are missing, everything is read.
        """
        import sqlalchemy

        values = {"study": self._loaded()._study_id, "first": self._first_unfinished}
        with self._storage.engine.connect() as connection:
            count = connection.execute(sqlalchemy.text(_COUNT), values).scalar_one()
            rows = connection.execute(sqlalchemy.text(_CLAIMS), values).all()
            if len(self._finished.keys() | {row[0] for row in rows}) < count:
                values["first"] = _LEAST_ID
                rows = connection.execute(sqlalchemy.text(_CLAIMS), values).all()
        found: dict[int, Record | None] = {}
        for trial_id, state, claim, runs, late in rows:
            record = _record(state, claim, runs, late)
            kept = found if state in _UNFINISHED else self._finished
            kept[trial_id] = record
        self._first_unfinished = min(found, default=max(self._finished, default=0) + 1)
        return found

    def _add(
        self, claim: Claim, state: str, more: dict[str, Any], value: float | None = None
    ) -> int:
        import optuna

        attributes = {_CLAIM: claim_to_json(claim), _KEY: claim.key, **more}
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState[state], value=value, user_attrs=attributes
        )
        return int(self._storage.create_new_trial(self._loaded()._study_id, trial))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Callable[[], None]]:
        """Hold the study's lock; the context is a function that raises if it was lost."""
        import sqlalchemy

        with self._storage.engine.connect() as connection, connection.begin():
            connection.execute(sqlalchemy.text(_LOCK), {"study": self.name})

            def still_locked() -> None:
                connection.execute(sqlalchemy.text("SELECT 1"))

            yield still_locked


_STATES = {
    "RUNNING": ClaimState.RUNNING,
    "COMPLETE": ClaimState.TOLD,
    "FAIL": ClaimState.LOST,
}


def _record(state: str, claim: str | None, runs: str | None, late: str | None) -> Record | None:
    """Return the record of a trial; None if it is not one of ours, or was forged."""
    try:
        parsed = [None if text is None else json.loads(text) for text in (claim, runs, late)]
        return record_of(parsed[0], _STATES[state], parsed[1], parsed[2])
    except (KeyError, ValueError, TypeError, ArithmeticError, RecursionError):
        return None


def _value(runs: Sequence[RunSummary]) -> float:
    """Return a value for Optuna, which nothing here reads: the fastest time, else 0."""
    return min((run.return_s for run in runs if run.at and run.return_s), default=0.0)


def studies(address: LedgerAddress) -> list[str]:
    """Return the names of the studies in the ledger."""
    import optuna

    with _ledger_errors(address):
        storage = _storage(address, HEARTBEAT_S, GRACE_S)
        try:
            return sorted(optuna.get_all_study_names(storage))
        finally:
            storage.engine.dispose()


def _storage(
    address: LedgerAddress, heartbeat_s: int, grace_s: int, *, makes_tables: bool = False
) -> Any:
    """Return Optuna's storage; only `create` makes or changes tables."""
    import optuna
    import sqlalchemy

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)  # a lost connection is no news
    url = sqlalchemy.URL.create("postgresql+psycopg")
    timeout = f"-c statement_timeout={_STATEMENT_TIMEOUT_MS}"
    options = {
        **address.options(),
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "tcp_user_timeout": _STATEMENT_TIMEOUT_MS,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "application_name": "writewise",
        "options": f"{timeout} -c idle_in_transaction_session_timeout={_STATEMENT_TIMEOUT_MS}",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is experimental is pinned (setup.py)
        return optuna.storages.RDBStorage(
            str(url),
            {"connect_args": options, "pool_pre_ping": True, "pool_size": 3},
            skip_compatibility_check=not makes_tables,
            skip_table_creation=not makes_tables,
            heartbeat_interval=heartbeat_s,
            grace_period=grace_s,
        )


def require_library() -> None:
    """Raise RequirementError if the extra is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("optuna", "sqlalchemy", "psycopg") if find_spec(name) is None]
    if missing:
        raise RequirementError(
            f"a shared study needs {' and '.join(missing)}, not installed here",
            f"install it with `{how_to_add(EXTRA)}`",
        )


@contextlib.contextmanager
def _ledger_errors(address: LedgerAddress) -> Iterator[None]:
    """Turn errors of the database into LedgerError, and those that may pass UnreachableError."""
    import optuna
    import sqlalchemy

    try:
        yield
    except (optuna.exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError) as error:
        cause = error.__cause__ if isinstance(error, optuna.exceptions.OptunaError) else error
        refusal = explain(str(getattr(cause, "orig", None) or cause or error))
        passing = (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError)
        is_passing = isinstance(cause, passing) or getattr(cause, "connection_invalidated", False)
        if is_passing:
            raise UnreachableError(
                f"{address} cannot be used: {refusal.reason}", refusal.hint
            ) from None
        raise LedgerError(
            f"{address} refused a statement: {refusal.reason}",
            "check the role's privileges (docs/how-to/shared-study.md)",
        ) from None
