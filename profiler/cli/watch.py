# SPDX-License-Identifier: Apache-2.0
"""Measure stalls of writers for as long as the host runs, and export metrics for Prometheus.

Level stalls costs no system call anything: it counts dirty throttling, requests of the disks and
EBS limits. Level calls counts the contract's calls as well, which slows them down a little, and
every system call of the host where probes cannot attach to functions; with --escalate it begins
when writers are throttled, and ends by itself. It changes nothing, and ends with Ctrl-C or SIGTERM.

Metrics are at http://127.0.0.1:9791/metrics, and nowhere else unless an option asks for it. --otlp
reads OpenTelemetry's variables (OTEL_EXPORTER_OTLP_…, OTEL_RESOURCE_ATTRIBUTES).
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.shared.errors import UsageError
from profiler.cli import argument_types as types
from profiler.cli import options
from profiler.cli.needs import PROFILE
from profiler.cli.printed_unit import add_print_unit, duration_word, unit_paths
from profiler.cli.watch_records import (
    add_day_record,
    record_place,
    recorded_days,
    unit_options,
)

if TYPE_CHECKING:
    from contracts.model import Contract
    from profiler.bpf.disks import BlockDevice
    from profiler.fleet.writing import RecordPlace
    from profiler.metrics.otlp_settings import OtlpSettings
    from profiler.service.exporting import ListenAddress

NAME = "watch"
HELP = "a service: metrics of write-back for Prometheus"
NEEDS = PROFILE

LEVELS = ("stalls", "calls")
DEFAULT_LISTEN = "127.0.0.1:9791"
#: For --listen and --otlp: none, and where the variables say.
OFF, BY_VARIABLES = "off", "env"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the volumes, the level, and where metrics go."""
    parser.add_argument(
        "destinations",
        metavar="DEST",
        nargs="*",
        type=types.destination,
        help="a directory on each volume whose disk counts (default: every mounted disk)",
    )
    parser.add_argument(
        "--level",
        choices=LEVELS,
        metavar="LEVEL",
        default="stalls",
        help="stalls: costs no call anything (default); calls: count the contract's calls too",
    )
    parser.add_argument(
        "--escalate",
        metavar="DURATION",
        type=types.positive_duration,
        help="count calls for so long when writers are throttled, such as 10m",
    )
    options.add_contract(parser)
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        default=DEFAULT_LISTEN,
        help=f"where Prometheus reads (default: {DEFAULT_LISTEN}); {OFF}: nowhere",
    )
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help=f"push to this OTLP endpoint: http://127.0.0.1:4318; {BY_VARIABLES}: that of OTEL_…",
    )
    add_day_record(parser)
    add_print_unit(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure until a signal."""
    from profiler.requirements import require

    if arguments.level == "calls" and arguments.escalate is not None:
        raise UsageError("--escalate needs level stalls", "omit --level calls, or --escalate")
    listen = address_of(arguments.listen)
    contract = _contract(arguments)
    otlp, place = _otlp(arguments), record_place(arguments)
    if listen is None and otlp is None and place is None:
        raise UsageError(f"--listen {OFF} without --otlp exports nothing", "add --otlp URL")
    if arguments.print_unit:
        is_local = _is_local(arguments, listen, otlp, place)
        return _print_unit(arguments, place, is_local=is_local)
    require(*NEEDS)
    disks, left_out = disks_to_watch(arguments.destinations)
    _watch(arguments, contract, listen, otlp, place, disks, left_out)
    return 0


def _contract(arguments: argparse.Namespace) -> Contract | None:
    """Return the contract whose calls are counted; None if none ever are. Raises UsageError."""
    if arguments.level == "stalls" and arguments.escalate is None:
        if arguments.contract is not None:
            raise UsageError("--contract counts calls", "add --level calls, or --escalate 10m")
        return None
    from contracts.loading import load_contract_of_calls
    from profiler.recording.timeframes import check_timeframe

    contract = load_contract_of_calls(arguments.contract)
    check_timeframe(contract)
    return contract


def address_of(text: str) -> ListenAddress | None:
    """Return an address and a port; None for `off`. Raises UsageError."""
    import ipaddress

    from contracts.shared.text import quoted
    from profiler.service.exporting import ListenAddress

    if text == OFF:
        return None
    host, _, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if is_bracketed else host)
        if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"invalid address {quoted(text)} for --listen",
            f"use an IP address and a port, such as {DEFAULT_LISTEN} or [::1]:9791",
        ) from None
    return ListenAddress(str(address), int(port))


def _otlp(arguments: argparse.Namespace) -> OtlpSettings | None:
    if arguments.otlp is None:
        return None
    from contracts.shared.installation import own_version
    from profiler.metrics.otlp_settings import settings_from
    from profiler.service.exporting import resource_of

    url = None if arguments.otlp == BY_VARIABLES else arguments.otlp
    return settings_from(os.environ, url, resource_of(own_version(), platform.node()))


def disks_to_watch(
    destinations: Sequence[Path],
) -> tuple[list[BlockDevice], list[str]]:
    """Return the disks below these directories, or below `/`, and the names of those left out.

    Raises UsageError for a directory that does not exist.
    """
    from contracts.shared.text import printable
    from profiler.bpf.disks import devices_of
    from profiler.metrics.definitions import MOST_DISKS

    for destination in destinations:
        if not destination.is_dir():
            raise UsageError(
                f"{printable(str(destination))} is not a directory", "name a mounted directory"
            )
    found = devices_of([str(each.absolute()) for each in destinations] or ["/"])
    return list(found[:MOST_DISKS]), [each.name for each in found[MOST_DISKS:]]


def _watch(
    arguments: argparse.Namespace,
    contract: Contract | None,
    listen: ListenAddress | None,
    otlp: OtlpSettings | None,
    place: RecordPlace | None,
    disks: Sequence[BlockDevice],
    left_out: Sequence[str],
) -> None:
    """Attach the probes, drop privileges, and measure until a signal."""
    import time

    from contracts.shared.installation import own_version
    from profiler.bpf.stall_session import StallSession
    from profiler.cli.version import bcc_version
    from profiler.govern.notify import Notifier
    from profiler.recording import privileges
    from profiler.recording.stopping import stopped_by_signals
    from profiler.report import watch as words
    from profiler.service.calls_level import CallsLevel
    from profiler.service.desk import Desk
    from profiler.service.ebs_pages import EbsPages
    from profiler.service.escalation import Escalation
    from profiler.service.exporting import Exporters
    from profiler.service.host_watch import HostWatch
    from profiler.service.service import WatchService

    counts_calls, escalate = arguments.level == "calls", arguments.escalate
    say = partial(print, flush=True)
    with stopped_by_signals() as stop, ExitStack() as stack:
        stalls = stack.enter_context(StallSession(disks))
        ebs = EbsPages(disk.name for disk in disks)
        stack.callback(ebs.close)
        calls = CallsLevel() if contract is None else CallsLevel(contract)
        stack.callback(calls.detach)
        if counts_calls:
            calls.attach(time.monotonic_ns())
        first = next(iter(arguments.destinations), None)
        records = stack.enter_context(recorded_days(place, first, stalls, say))
        privileges.keep_only(
            privileges.needed_to_watch(
                loads_probes=escalate is not None, reads_log_page=bool(ebs.disks)
            )
        )
        watch = HostWatch(stalls, disks, ebs, calls, (own_version(), bcc_version()))
        desk, notifier = Desk(), Notifier(os.environ)
        exporters = Exporters(desk, watch.values, own_version(), say, listen, otlp)
        stack.callback(exporters.close)
        escalates_s = None if escalate is None else escalate / 10**9
        names = [disk.name for disk in disks]
        say(words.begin_line(names, counts_calls=counts_calls, escalates_s=escalates_s))
        open_to = str(listen) if listen is not None and not listen.is_loopback else None
        for sentence in words.notes(left_out, open_to):
            say(sentence)
        exporters.start()
        if exporters.port is not None and listen is not None:
            say(f"metrics are at {listen.url}")
        notifier.ready(f"level {arguments.level}")
        escalation = None if escalate is None else Escalation(escalate)
        try:
            WatchService(watch, desk, exporters, say, notifier, escalation, records).run(stop)
        finally:
            notifier.stopping()


def _is_local(
    arguments: argparse.Namespace,
    listen: ListenAddress | None,
    otlp: OtlpSettings | None,
    place: RecordPlace | None,
) -> bool:
    """Return whether no packet leaves the host; variables may be others under systemd."""
    if place is not None and place.path is None:
        return False
    if arguments.otlp == BY_VARIABLES or (listen is not None and not listen.is_loopback):
        return False
    return otlp is None or otlp.host in ("localhost", "127.0.0.1", "::1")


def _print_unit(arguments: argparse.Namespace, place: RecordPlace | None, *, is_local: bool) -> int:
    """Print the unit with the same options and absolute paths."""
    from sysctl.apply.units import program
    from sysctl.apply.watch_unit import watch_unit

    chosen = ["--level", arguments.level]
    if arguments.escalate is not None:
        chosen += ["--escalate", duration_word(arguments.escalate)]
    if arguments.contract is not None:
        chosen += ["--contract", str(Path(arguments.contract).absolute())]
    chosen += ["--listen", arguments.listen]
    if arguments.otlp is not None:
        chosen += ["--otlp", arguments.otlp]
    chosen += unit_options(place)
    destinations = unit_paths(arguments.destinations)
    print(watch_unit(program(), chosen, destinations, is_local=is_local), end="")
    return 0
