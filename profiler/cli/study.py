# SPDX-License-Identifier: Apache-2.0
"""Measure a class of nodes together: many nodes take trials from one ledger in PostgreSQL.

The answer has a prediction interval: what the settings do on a node of the class that was not
measured. `create` makes a study, `join` runs on each canary as root, `status` and `advise` read.
The ledger gives a node only settings, and the node refuses those beyond its own limit.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.cli import argument_types as types
from profiler.cli import options, volume_arguments
from profiler.cli.common import access_from, terminable
from profiler.cli.json_documents import emit
from profiler.cli.limit_arguments import limits_from
from profiler.cli.needs import PULL
from profiler.cli.parser import rare
from profiler.cli.remembering import remember

if TYPE_CHECKING:
    from profiler.shared_study.ledger import Ledger
    from profiler.study.request import StudyRequest
    from sysctl.fleet.class_advice import ClassAdvice
    from sysctl.fleet.spec import StudySpec

NAME = "study"
HELP = "measure a class of nodes together, on many nodes"
NEEDS = PULL
IS_REMEMBERED = True

#: A sweep writes its results to a file; a node of a study does not (`local_folder`).
_UNUSED = Path("writewise-study-unused.json")
_STRATEGIES = ("grid", "random", "bayes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the four actions."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    create = actions.add_parser(
        "create",
        help="make a study in the ledger",
        description="Make a study: what the nodes of a class try.",
    )
    join = actions.add_parser(
        "join",
        help="take part on this node, as root",
        description="Take part in a study on this node: claim settings, measure them, and report "
        "the results, until nothing is left. The node runs with its own settings in between.",
    )
    status = actions.add_parser(
        "status", help="print what is done", description="Print what is done, or all studies."
    )
    advise = actions.add_parser(
        "advise",
        help="recommend settings for the class",
        description="Recommend settings for the class, with the interval of what they do on a "
        "node that was not measured.",
    )
    for action, call in ((create, _create), (join, _join), (status, _status), (advise, _advise)):
        _add_ledger(action, is_study_optional=call is _status)
        action.set_defaults(action=call)
    _add_create(create)
    _add_join(join)
    options.add_json(status)
    options.add_json(advise)
    advise.add_argument(
        "--output-dir",
        metavar="DIR",
        type=types.directory,
        help="write recommendation.json and the usual files into DIR (default: none)",
    )
    advise.add_argument(
        "--max-at-risk",
        metavar="SIZE",
        type=types.amount,
        help="maximum data that exists only in memory: 1GiB",
    )


def _add_ledger(parser: argparse.ArgumentParser, *, is_study_optional: bool) -> None:
    parser.add_argument(
        "ledger", metavar="LEDGER", help="postgresql://USER@HOST/DATABASE, without a password"
    )
    parser.add_argument(
        "--study", metavar="NAME", required=not is_study_optional, help="name of the study"
    )


def _add_create(parser: argparse.ArgumentParser) -> None:
    from profiler.cli.space_arguments import add_sysctl
    from sysctl.knobs.vm import THRESHOLDS

    parser.add_argument(
        "--class",
        dest="class_key",
        metavar="CLASS",
        required=True,
        help="class of the nodes, as `study join --dry-run` on one of them prints it",
    )
    _add_kind(parser, "the kind of the nodes, if the class has several")
    group = parser.add_argument_group("what to try (default: four dirty and two background ratios)")
    for name in THRESHOLDS:
        add_sysctl(group, name, takes_several=True)
    options.add_search(group, _STRATEGIES)
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=types.count,
        help="nodes that compare the best settings with the current ones (default: 8)",
    )
    rare(
        parser.add_argument(
            "--blocks",
            metavar="N",
            type=types.count,
            help="blocks of two pairs on each of them (default: 2)",
        )
    )
    rare(
        parser.add_argument(
            "--present",
            metavar="NAME=VALUE,…",
            type=types.words,
            default=("vm.dirty_ratio=20", "vm.dirty_background_ratio=10"),
            help="current settings of the nodes (default: those of the kernel, 20 and 10)",
        )
    )


def _add_kind(parser: argparse.ArgumentParser, what: str) -> None:
    from sysctl.fleet.spec import kind_from

    rare(
        parser.add_argument(
            "--kind", metavar="NAME", type=types.typed(kind_from), help=f"{what} (default: none)"
        )
    )


def _add_join(parser: argparse.ArgumentParser) -> None:
    options.add_source(parser)
    options.add_destination(parser)
    _add_kind(parser, "the kind of this node, in a study that was made for one kind")
    parser.add_argument(
        "--max-at-risk",
        metavar="SIZE",
        type=types.positive_amount,
        required=True,
        help="refuse settings with a dirty threshold above SIZE on this node: 2GiB",
    )
    parser.add_argument(
        "--results",
        metavar="PLACE",
        required=True,
        help="where results are kept: s3://BUCKET/PREFIX or a directory, the same for all nodes",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print this node's class and what it would refuse; claim and change nothing",
    )
    options.add_json(parser)
    options.add_max_bytes(parser)
    options.add_client(parser)
    options.add_workers(parser)
    options.add_access(parser)
    options.add_transfer(parser)
    rare(options.add_contract(parser))
    volume_arguments.add_volume(parser, is_rare=True)
    rare(volume_arguments.add_instance_type(parser))


def run(arguments: argparse.Namespace) -> int:
    """Run one of the actions. Raises WritewiseError."""
    return int(arguments.action(arguments))


def _ledger(arguments: argparse.Namespace) -> Ledger:
    """Return the ledger of the study. Raises UsageError, and RequirementError without the extra."""
    from contracts.shared.errors import UsageError
    from contracts.shared.text import quoted
    from profiler.shared_study.address import parse_address
    from profiler.shared_study.ledger import Ledger, require_library
    from sysctl.fleet.spec import is_study_name

    address = parse_address(arguments.ledger)
    if arguments.study is not None and not is_study_name(arguments.study):
        raise UsageError(
            f"invalid name of a study: {quoted(arguments.study)}",
            "use lower-case letters, digits and hyphens",
        )
    require_library()
    return Ledger(address, arguments.study or "")


def _create(arguments: argparse.Namespace) -> int:
    spec = _spec(arguments)
    _ledger(arguments).create(spec)
    remember(arguments, f"made the study {spec.name} of {spec.class_key}")
    kind = f" --kind {arguments.kind}" if arguments.kind else ""
    # not the address that was given: it is the owner's, and a canary needs less
    print(f"""study {spec.name}: {len(spec.candidates)} candidates, then {spec.nodes} nodes compare
on each canary, as root, with LEDGER of the role of a node:
  writewise study join LEDGER --study {spec.name}{kind} s3://BUCKET/PREFIX DEST \
--max-at-risk SIZE --results s3://BUCKET/PREFIX""")
    return 0


def _spec(arguments: argparse.Namespace) -> StudySpec:
    """Return the study that the arguments ask for. Raises UsageError with every problem."""
    from contracts.shared.errors import UsageError
    from profiler.study.space import GRID_VALUES
    from sysctl.fleet.spec import (
        DEFAULT_BLOCKS,
        DEFAULT_NODES,
        StudySpec,
        class_of_kind,
        spec_from_json,
    )
    from sysctl.knobs.vm import THRESHOLDS

    given = {name: getattr(arguments, name) for name in THRESHOLDS if getattr(arguments, name)}
    asked = StudySpec(
        name=arguments.study,
        class_key=class_of_kind(arguments.class_key, arguments.kind),
        values=given or GRID_VALUES,
        present=_present(arguments.present),
        strategy=arguments.strategy or _STRATEGIES[0],
        seed=arguments.seed,
        nodes=arguments.nodes or DEFAULT_NODES,
        blocks=arguments.blocks or DEFAULT_BLOCKS,
    )
    try:
        return spec_from_json(asked.to_json())
    except ValueError as error:
        raise UsageError(f"invalid study: {error}", "see `writewise study create --help`") from None


def _present(words: tuple[str, ...]) -> dict[str, int]:
    from contracts.shared.errors import UsageError

    found = {}
    for word in words:
        name, _, value = word.partition("=")
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise UsageError("--present needs NAME=VALUE,…", "such as vm.dirty_ratio=20")
        found[name] = int(value)
    return found


def _join(arguments: argparse.Namespace) -> int:
    from contracts.loading import load_contract_of_calls
    from profiler.requirements import require
    from profiler.shared_study.results_store import store_of

    contract = load_contract_of_calls(arguments.contract, trusted=True)
    ledger, request = _ledger(arguments), _request(arguments, contract)
    store = store_of(arguments.results, request.access)
    if arguments.dry_run:
        return _show_check(arguments, ledger, request)
    require(*NEEDS)
    from profiler.report.console import print_lines
    from profiler.shared_study.join import join
    from profiler.shared_study.node_view import NodeView

    console, is_quiet = options.progress_console(arguments), options.is_quiet(arguments)
    view = NodeView(lambda sentence: None if is_quiet else print_lines([sentence], console))
    with terminable():
        outcome = join(request, ledger, store, view, view.say, arguments.kind)
    counted = f"{outcome.measured} claims measured as node {outcome.node}"
    remember(arguments, f"study {arguments.study}: {counted}; {outcome.why}")
    if arguments.json:
        emit("study join", {"study": arguments.study, **vars(outcome)})
    else:
        print(f"{counted}: {outcome.why}")
    return 0


def _show_check(arguments: argparse.Namespace, ledger: Ledger, request: StudyRequest) -> int:
    from profiler.shared_study.join import check

    found = check(request, ledger, arguments.kind)
    if arguments.json:
        emit("study join --dry-run", {"study": arguments.study, **vars(found)})
        return 0
    print(f"class    {found.class_key}")
    print(f"node     {found.node or 'gets its name in the study when it joins'}")
    print(f"joining  {found.problem or 'this node is one of the study'}")
    for setting, why in found.refusals.items():
        print(f"refused  {setting}: {why}")
    return 0


def _request(arguments: argparse.Namespace, contract: object) -> StudyRequest:
    from contracts.model import Contract
    from profiler.pull.clients.catalogue import usable
    from profiler.pull.settings import settings_for
    from profiler.pull.source import parse_location
    from profiler.study.request import StudyRequest
    from profiler.study.volume_here import of_options
    from sysctl.volume import instances

    if not isinstance(contract, Contract):
        raise TypeError("not a contract")
    transfer, client_name = settings_for(arguments.transfer, arguments.client)
    checked, name = volume_arguments.volume_from(arguments), arguments.instance_type
    instance = instances.table().find(name).name if name else None
    arguments.max_durable = None
    return StudyRequest(
        location=parse_location(arguments.source),
        destination=arguments.destination,
        access=access_from(arguments),
        transfer=transfer,
        contract=contract,
        output=_UNUSED,
        client=usable(client_name),
        limits=limits_from(arguments),
        workers=arguments.workers,
        max_bytes=arguments.max_bytes,
        volume=of_options(checked.volume if checked else None, instance, None),
    )


def _status(arguments: argparse.Namespace) -> int:
    from profiler.report.class_study import print_status, status_document
    from profiler.report.console import plain_console, print_lines
    from profiler.shared_study.ledger import Ledger, LedgerError, UnreachableError, studies

    first = _ledger(arguments)
    names = [arguments.study] if arguments.study else studies(first.address)
    found, refused = [], {}
    for name in names:
        ledger = Ledger(first.address, name)
        try:
            found.append((ledger.spec(), ledger.records(), ledger.broken))
        except LedgerError as error:  # forged, or another program's: it hides no other
            if arguments.study or isinstance(error, UnreachableError):
                raise
            refused[name] = error.message
        finally:
            ledger.close()
    if arguments.json:
        shown = [status_document(*each) for each in found]
        emit("study status", {"studies": shown, "refused": refused})
        return 0
    for each in found:
        print_status(*each, plain_console())
    print_lines(refused.values(), plain_console())
    if not names:
        print(f"{first.address} has no studies")
    return 0


def _advise(arguments: argparse.Namespace) -> int:
    from profiler.report.class_study import advice_of_class_document, headline, print_class_advice
    from profiler.report.console import plain_console
    from sysctl.fleet.class_advice import advise_class

    ledger = _ledger(arguments)
    advice = advise_class(ledger.spec(), ledger.records(), arguments.max_at_risk)
    remember(arguments, headline(advice))
    written = _write(arguments, advice)
    if arguments.json:
        emit("study advise", {**advice_of_class_document(advice), "written": written})
        return 0
    print_class_advice(advice, plain_console())
    for path in written:
        print(f"wrote {path}")
    return 0


def _write(arguments: argparse.Namespace, advice: ClassAdvice) -> list[str]:
    """Write the files of the recommended change, if a folder is named; return their paths."""
    from profiler.cli.advise import write_change
    from profiler.report.class_change import class_change

    if arguments.output_dir is None:
        return []
    files = write_change(class_change(advice), arguments.output_dir, None)
    return [str(path) for path in files.written]
