# SPDX-License-Identifier: Apache-2.0
"""docs/reference/environment.md: each environment variable that Writewise reads, and what it does.

A test compares the names with those in the source.
"""

from __future__ import annotations

from dataclasses import dataclass

from profiler.metrics.otlp_settings import VARIABLES as OTLP_VARIABLES
from profiler.recording.log_origin import JOB_GROUP_VARIABLES, JOB_ID_VARIABLES
from sysctl.host.host import STATE_DIRECTORY
from tools.docs.markdown import table


@dataclass(frozen=True)
class Variables:
    """Variables with one purpose."""

    names: tuple[str, ...]
    meaning: str


OWN = (
    Variables(
        ("WRITEWISE_TRACEBACK",), "raise an internal error with its traceback, for a bug report"
    ),
    Variables(
        ("WRITEWISE_STATE_DIRECTORY",),
        f"keep journals and locks in this directory instead of {STATE_DIRECTORY}, for tests",
    ),
    Variables(("WRITEWISE_HISTORY",), "`off`: add nothing to the history"),
    Variables(("WRITEWISE_WAIT_S",), "seconds that an upgrade of the package waits for a sweep"),
    Variables(JOB_ID_VARIABLES, "JOB-ID of `profile --log`: the first that is set"),
    Variables(JOB_GROUP_VARIABLES, "JOB-GROUP-ID of `profile --log`: the first that is set"),
)
OF_OTHERS = (
    Variables(("NO_COLOR",), "print no colours, if it is set and not empty (no-color.org)"),
    Variables(("TERM",), "`dumb`: no live view"),
    Variables(("COLUMNS",), "width of the output on a terminal"),
    Variables(("TMPDIR",), "where the objects of a workload are made"),
    Variables(
        ("XDG_STATE_HOME",), "where a user's own history is kept (default: `~/.local/state`)"
    ),
    Variables(("PATH",), "where programs are looked for; directories of other users are left out"),
    Variables(
        ("SUDO_UID", "SUDO_GID"),
        "set by sudo: `profile` and `run` run their command as this user, whose files are trusted; "
        "the history names the user",
    ),
    Variables(
        (
            *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
            *("AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
        ),
        "credentials, profile and region, as boto3 reads them",
    ),
    Variables(
        ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "an endpoint, if --endpoint-url gives none"
    ),
    Variables(
        ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"),
        "set by systemd: `govern` and `watch` report to it that they are ready, and that they work",
    ),
    Variables(
        ("TRIGGER_UNIT",),
        "set by systemd: a `pull --record` that a timer started waits before it writes to S3",
    ),
    Variables(
        OTLP_VARIABLES,
        "`watch --otlp`: endpoint, headers, certificates, interval and attributes, as "
        "OpenTelemetry's specification has them; OTEL_EXPORTER_OTLP_METRICS_… wins",
    ),
    Variables(("AWS_CA_BUNDLE",), "certificates to trust; every pull client gets them"),
)
#: Set for programs that Writewise starts, or hidden from them; users need not know them.
INTERNAL = (
    *("AWS_PAGER", "S3_ENDPOINT_URL", "RCLONE_S3_ENDPOINT", "RCLONE_CONFIG_PULL_ENDPOINT"),
    *("HOME", "USER", "LOGNAME", "BCC_KERNEL_SOURCE"),
)


def page() -> str:
    """Return docs/reference/environment.md."""
    return "\n".join(
        [
            "# Environment variables",
            "",
            "Options win over variables. `sudo` removes most variables: name those to keep, as in",
            "`sudo --preserve-env=AWS_PROFILE writewise …`.",
            "",
            *table(["Writewise's own, and schedulers'", "Meaning"], _rows(OWN)),
            "",
            *table(["Of others", "Meaning"], _rows(OF_OTHERS)),
            "",
            "boto3 reads [more of `AWS_*`][boto3]; they work as in every program that uses it.",
            "",
            "[boto3]: https://boto3.amazonaws.com/v1/documentation/api/latest/guide/configuration.html",
            "",
        ]
    )


def _rows(every: tuple[Variables, ...]) -> list[list[str]]:
    return [[", ".join(f"`{name}`" for name in each.names), each.meaning] for each in every]
