# SPDX-License-Identifier: Apache-2.0
"""Roll a recommendation out to a fleet in stages, with a gate between them.

`plan` chooses the stages, `render` writes files for the program that configures the nodes, and
`gate` reads the nodes' records and decides by its exit code: 0 go on, 10 wait, 11 stop, 12 revert.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared import exit_codes
from contracts.shared.text import quoted
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.json_documents import emit

if TYPE_CHECKING:
    from sysctl.render.snippet import Snippet
    from sysctl.rollout.engines.format import EngineFormat
    from sysctl.rollout.plan import RolloutPlan

NAME = "rollout"
HELP = "roll a recommendation out to a fleet in stages"
NEEDS: tuple[str, ...] = ()

PLAN_NAME = Path("rollout.json")
_ALL = "all"
#: By the words of `sysctl.rollout.gate`.
_EXIT_CODES = {
    "go on": exit_codes.SUCCESS,
    "wait": exit_codes.GATE_WAIT,
    "stop": exit_codes.GATE_STOP,
    "revert": exit_codes.GATE_REVERT,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their arguments."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _add_plan(
        actions.add_parser(
            "plan",
            help="choose stages, control arm and limits, and save them",
            description="Choose the stages, the control arm and the limits, and save them.",
        )
    )
    _add_render(
        actions.add_parser(
            "render",
            help="write files for Ansible, Systems Manager, cloud-init, TuneD, Bottlerocket",
            description="Write the plan as files for the program that configures the nodes.",
        )
    )
    _add_gate(
        actions.add_parser(
            "gate",
            help="decide from the nodes' records: go on, wait, stop or revert",
            description="Decide from the nodes' records whether a stage may go on. The exit code "
            "is 0 for go on, 10 for wait, 11 for stop, 12 for revert.",
        )
    )


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recommendation",
        metavar="RECOMMENDATION.json",
        type=types.file,
        help="what `writewise advise` wrote, or the results of a sweep",
    )
    parser.add_argument(
        "--nodes",
        metavar="N",
        type=types.count,
        required=True,
        help="how many nodes the fleet has; of one class, how many that has",
    )
    parser.add_argument(
        "--class",
        dest="class_key",
        metavar="CLASS",
        help="judge by records of this class of nodes alone; any: all classes (default: the class "
        "that the recommendation names, else any)",
    )
    parser.add_argument(
        "--stages",
        metavar="SHARE,…",
        type=types.shares,
        help="shares of the nodes, before the last stage (default: 0.1%%,1%%,10%%,50%%)",
    )
    parser.add_argument(
        "--control",
        metavar="SHARE",
        type=types.share,
        help="share that is never treated (default: 5%%, more in a small fleet)",
    )
    options.add_output(parser, "plan", PLAN_NAME)
    options.add_json(parser)
    parser.set_defaults(action=_plan)


def _add_render(parser: argparse.ArgumentParser) -> None:
    _add_plan_file(parser)
    parser.add_argument(
        "--format",
        metavar="NAME,…",
        type=types.words,
        default=(_ALL,),
        help="ansible, ssm, cloud-init, tuned, bottlerocket (default: all)",
    )
    options.add_output_dir(parser, "the files", Path())
    options.add_json(parser)
    parser.set_defaults(action=_render)


def _add_gate(parser: argparse.ArgumentParser) -> None:
    _add_plan_file(parser)
    parser.add_argument(
        "records",
        metavar="RECORDS",
        type=types.directory,
        help="directory of records, or the one that `fleet ingest` wrote",
    )
    parser.add_argument(
        "--stage",
        metavar="N",
        type=types.count,
        required=True,
        help="the stage that the nodes are in",
    )
    options.add_json(parser)
    parser.set_defaults(action=_gate)


def _add_plan_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "plan", metavar="ROLLOUT.json", type=types.file, help="the plan of `rollout plan`"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the action. Raises WritewiseError."""
    return int(arguments.action(arguments))


def _plan(arguments: argparse.Namespace) -> int:
    from profiler.cli.change_source import read_change
    from profiler.report.console import plain_console
    from profiler.report.destination import new_file
    from profiler.report.rollout import plan_document, print_plan
    from sysctl.rollout.engines.format import settings_file
    from sysctl.rollout.plan import make_plan

    change = read_change(arguments.recommendation)
    plan = make_plan(
        change,
        arguments.nodes,
        arguments.stages,
        arguments.control,
        class_key=arguments.class_key,
    )
    settings_file(plan)  # raises if there is nothing to roll out
    with new_file(str(arguments.output)) as file:
        file.write(json.dumps(plan.to_json(), indent=1) + "\n")
    if arguments.json:
        emit("rollout plan", plan_document(plan, str(arguments.output)))
        return 0
    console = plain_console()
    print_plan(plan, console)
    if not options.is_quiet(arguments):
        from profiler.report.console import print_copyable

        console.print()
        print_copyable(f"Next: writewise rollout render {arguments.output}", console)
    return 0


def _read_plan(path: Path) -> RolloutPlan:
    from contracts.shared.files import FileKind
    from contracts.shared.text import printable
    from sysctl.rollout.plan_file import parse_plan

    kind = FileKind("plan", 2**20, "give the rollout.json of `writewise rollout plan`")
    return parse_plan(kind.read_text(str(path)), printable(str(path)))


def _render(arguments: argparse.Namespace) -> int:
    from profiler.report.console import plain_console
    from profiler.report.written import print_written
    from sysctl.render.snippet import InexpressibleError

    plan = _read_plan(arguments.plan)
    snippets: list[Snippet] = []
    left_out: list[str] = []
    for engine in _engines(arguments.format):
        try:
            snippets += engine.render(plan)
        except InexpressibleError as error:
            if _ALL not in arguments.format:
                raise
            left_out.append(f"{engine.name}: {error.message}")
    written = _write(snippets, arguments.output_dir)
    if arguments.json:
        paths = list(map(str, written))
        emit("rollout render", {"rollout": plan.id, "written": paths, "left_out": left_out})
    else:
        print_written(written, left_out, (), plain_console())
    return 0


def _engines(names: Sequence[str]) -> tuple[EngineFormat, ...]:
    """Return the engines of these names, in their order. Raises UsageError."""
    from contracts.shared.errors import UsageError
    from sysctl.rollout.engines.catalogue import ENGINE_NAMES, ENGINES

    for name in names:
        if name not in (*ENGINE_NAMES, _ALL):
            raise UsageError(f"unknown format {quoted(name)}", f"use {', '.join(ENGINE_NAMES)}")
    return tuple(each for each in ENGINES if _ALL in names or each.name in names)


def _write(snippets: Sequence[Snippet], folder: Path) -> list[Path]:
    """Write the files; one that is not Writewise's is not replaced. Raises UsageError."""
    from contracts.shared.own_files import require_replaceable
    from contracts.shared.writing import make_directories, write_atomically
    from sysctl.rollout.engines.format import is_of_an_engine

    make_directories(folder)
    texts = {folder / each.file_name: each.text for each in snippets}
    for path in texts:
        require_replaceable(path, is_of_an_engine, "--output-dir")
    for path, text in texts.items():
        write_atomically(path, text)
    return list(texts)


def _gate(arguments: argparse.Namespace) -> int:
    import time

    from profiler.cli.rollout_records import read_reports
    from profiler.report.console import plain_console
    from profiler.report.rollout import decision_document, print_decision
    from sysctl.rollout.gate import decide, tally, window_of
    from sysctl.rollout.outcomes import VotingProblems, stage_outcomes

    plan = _read_plan(arguments.plan)
    stage = plan.stage(arguments.stage)
    problems = VotingProblems()
    window = window_of(plan, arguments.stage, time.time())
    reports = read_reports(arguments.records, plan, problems)
    found = stage_outcomes(reports, window, problems)
    decision = decide(plan, arguments.stage, tally(found, plan, stage))
    about = (decision, plan, arguments.stage, problems)
    if arguments.json:
        emit("rollout gate", decision_document(*about))
    else:
        print_decision(*about, plain_console())
    return _EXIT_CODES[decision.decision]
