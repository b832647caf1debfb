# SPDX-License-Identifier: Apache-2.0
"""Validation of `recommendation.json`: reports every problem at once, with its path.

The file changes a host as root, and parts of it are printed and written into files, so nothing in
it is trusted: names must be known, values in range, texts short and printable, paths absolute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from contracts.shared.errors import InvalidFileError, UsageError
from contracts.shared.text import is_unprintable, printable, quoted
from sysctl.change.class_text import is_class_text
from sysctl.change.forms import BYTES, RATIO
from sysctl.change.recommendation import (
    FORMAT,
    FORMAT_VERSION,
    MAX_NAME,
    MAX_SENTENCE,
    DiskAdvice,
    Evidence,
    FstabLine,
    KnobAdvice,
    Measured,
    MountAdvice,
    OtherForm,
    RecommendedChange,
    SysctlAdvice,
)
from sysctl.knobs.catalogue import DEVICE_BY_NAME
from sysctl.knobs.mount import is_kernel_option, may_be_kept_in_fstab, may_be_recommended
from sysctl.knobs.setting import invalid_reason
from sysctl.knobs.transfer import transfer_problems
from sysctl.knobs.vm import BY_NAME

T = TypeVar("T")

_HINT = "use the recommendation.json that `writewise advise` wrote"
_LARGEST = 2**63 - 1
_MAX_ITEMS = 64
#: Names of a volume: a device file or a tag of fstab(5); not an image file.
_DEVICE = re.compile(r"(?:/dev/|(?:UUID|LABEL|PARTUUID|PARTLABEL)=)\S+")


def parse_recommendation(text: str, name: str) -> RecommendedChange:
    """Return the change in `text`; `name` is for messages. Raises UsageError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"{name} is not a recommendation, or it is truncated: {error}"
        raise UsageError(message, _HINT) from None
    return from_json(document, name)


def from_json(document: object, name: str) -> RecommendedChange:
    """Return the change of a document of `RecommendedChange.to_json`. Raises UsageError."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise UsageError(f"{name} is not a recommendation of `writewise advise`", _HINT)
    if document.get("version") != FORMAT_VERSION:
        raise UsageError(
            f"{name} has version {quoted(str(document.get('version')))}; this version of "
            f"Writewise reads {FORMAT_VERSION}",
            "use the version that wrote it, or run `writewise advise` again",
        )
    problems: list[str] = []
    fields = {key: value for key, value in document.items() if key not in ("format", "version")}
    change = _change(_Fields(fields, "", problems))
    if problems:
        raise InvalidFileError(name, problems)
    return change


class _Fields:
    """One JSON object; an invalid field is added as a problem and replaced by a default."""

    def __init__(self, data: object, path: str, problems: list[str]) -> None:
        self.path, self._problems = path, problems
        self._data: dict[str, Any] = dict(data) if isinstance(data, dict) else {}
        if not isinstance(data, dict):
            self.problem("", "is not an object")

    def problem(self, name: str, what: str) -> None:
        """Add a problem of field `name`."""
        place = ".".join(part for part in (self.path, name) if part)
        self._problems.append(f"{place}: {what}"[:300])

    def take(self, name: str, is_right: Callable[[Any], bool], what: str, default: T) -> T:
        """Return the field; add a problem and return the default unless it `is_right`."""
        value = self._data.pop(name, None)
        if is_right(value):
            return value  # type: ignore[no-any-return]
        self.problem(name, f"is not {what}")
        return default

    def sentence(self, name: str) -> str:
        """Return one line of text of limited length that is safe to print."""
        return self.take(name, _is_text(MAX_SENTENCE), "a printable text of one line", "")

    def later_sentence(self, name: str) -> str:
        """Return the same; "" from earlier files, which do not have the field."""
        return self.sentence(name) if name in self._data else ""

    def folder(self, name: str) -> str:
        """Return an absolute path without `..`."""
        return self.take(name, _is_folder, "an absolute path", "/")

    def whole(self, name: str, maximum: int = _LARGEST) -> int:
        """Return a whole number from 0 to `maximum`."""
        return self.take(name, _is_whole(maximum), f"a whole number from 0 to {maximum}", 0)

    def later_class(self, name: str) -> str:
        """Return the name of a class; "" from files without one."""
        if name not in self._data:
            return ""
        return self.take(name, is_class_text, "the name of a class", "")

    def later_whole(self, name: str) -> int:
        """Return the same; 0 from earlier files, which do not have the field."""
        return self.whole(name) if name in self._data else 0

    def positive(self, name: str) -> float:
        """Return a number above 0."""
        return self.take(name, _is_positive, "a number above 0", 1.0)

    def optional(self, name: str) -> float | None:
        """Return a number above 0, or None for null."""
        return self.take(name, lambda v: v is None or _is_positive(v), "a number or null", None)

    def words(self, name: str, is_right: Callable[[str], bool]) -> tuple[str, ...]:
        """Return a list of mount options, each of which `is_right`."""
        return tuple(self.take(name, _are_words(is_right), "a list of mount options", []))

    def volume(self, name: str) -> str:
        """Return the name of a volume's device."""
        return self.take(name, _is_device, "a device in /dev", "")

    def child(self, name: str) -> _Fields:
        """Return the object in field `name`."""
        return _Fields(
            self._data.pop(name, None), f"{self.path}.{name}".lstrip("."), self._problems
        )

    def optional_child(self, name: str) -> _Fields | None:
        """Return the same, or None for null."""
        if self._data.get(name) is None:
            self._data.pop(name, None)
            return None
        return self.child(name)

    def children(self, name: str) -> list[_Fields]:
        """Return the objects of the list in field `name`."""
        items: list[Any] = self.take(name, _is_short_list, "a list of a few objects", [])
        return [
            _Fields(item, f"{self.path}.{name}[{at}]".lstrip("."), self._problems)
            for at, item in enumerate(items)
        ]

    def sysctls(self, name: str) -> dict[str, int]:
        """Return known sysctls with values in their ranges; at most one of each pair."""
        found: dict[Any, Any] = self.take(
            name, lambda v: isinstance(v, dict) and len(v) <= _MAX_ITEMS, "a map", {}
        )
        for problem in _sysctl_problems(found):
            self.problem(name, problem)
        return {str(key): value for key, value in found.items() if _is_whole(_LARGEST)(value)}

    def transfer(self, name: str) -> dict[str, int]:
        """Return valid transfer settings by name; none if the field is missing."""
        self._data.setdefault(name, {})
        found: dict[Any, Any] = self.take(
            name, lambda v: isinstance(v, dict) and len(v) <= _MAX_ITEMS, "a map", {}
        )
        problems = transfer_problems(found)
        for problem in problems:
            self.problem(name, printable(problem))
        return {} if problems else found

    def end(self) -> None:
        """Add a problem for each field that was not taken."""
        for name in list(self._data)[:_MAX_ITEMS]:
            self.problem(printable(str(name))[:40], "is unknown")


def _is_text(limit: int) -> Callable[[object], bool]:
    return lambda v: isinstance(v, str) and len(v) <= limit and not any(map(is_unprintable, v))


def _is_folder(value: object) -> bool:
    return (
        isinstance(value, str)
        and _is_text(MAX_NAME)(value)
        and value.startswith("/")
        and ".." not in value.split("/")
    )


def _is_whole(maximum: int) -> Callable[[object], bool]:
    return lambda v: isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= maximum


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _LARGEST


def _is_short_list(value: object) -> bool:
    return isinstance(value, list) and len(value) <= _MAX_ITEMS


def _are_words(is_right: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda v: (
        isinstance(v, list)
        and len(v) <= _MAX_ITEMS
        and all(isinstance(word, str) and is_right(word) for word in v)
    )


def _is_device(value: object) -> bool:
    return (
        isinstance(value, str)
        and _is_text(MAX_NAME)(value)
        and _DEVICE.fullmatch(value) is not None
        and ".." not in value.split("/")
    )


def _sysctl_problems(values: Mapping[Any, Any]) -> list[str]:
    problems = []
    for name, value in values.items():
        knob = BY_NAME.get(name)
        if knob is None:
            problems.append(f"unknown sysctl {quoted(str(name))}")
        elif not _is_whole(knob.maximum)(value) or value < knob.minimum:
            problems.append(f"{name} is not a whole number from {knob.minimum} to {knob.maximum}")
        elif knob.counterpart in values and name < str(knob.counterpart):
            problems.append(f"{name} and {knob.counterpart} exclude each other")
    return problems


def _change(fields: _Fields) -> RecommendedChange:
    sysctls = tuple(_sysctl(child) for child in fields.children("sysctls"))
    values = {advice.name: advice.value for advice in sysctls}
    if len(values) != len(sysctls):
        fields.problem("sysctls", "repeats a name")
    for problem in _sysctl_problems(values):
        fields.problem("sysctls", problem)
    evidence = _evidence(fields.child("evidence"))
    reason = invalid_reason(
        {n: v for n, v in values.items() if isinstance(v, int)}, evidence.dirtyable_bytes
    )
    if reason:
        fields.problem("sysctls", reason)
    mount, disk = fields.optional_child("mount"), fields.optional_child("disk")
    other = fields.optional_child("other_form")
    change = RecommendedChange(
        sysctls=sysctls,
        evidence=evidence,
        originals=fields.sysctls("originals"),
        mount=_mount(mount) if mount else None,
        disk=_disk(disk) if disk else None,
        other_form=_other_form(other) if other else None,
        transfer=fields.transfer("transfer"),
    )
    fields.end()
    return change


def _ended(fields: _Fields, value: T) -> T:
    fields.end()
    return value


def _sysctl(fields: _Fields) -> SysctlAdvice:
    known = fields.take("name", lambda v: isinstance(v, str) and v in BY_NAME, "a known sysctl", "")
    value, present = fields.whole("value"), fields.whole("present")
    return _ended(fields, SysctlAdvice(known, value, present, fields.sentence("reason")))


def _mount(fields: _Fields) -> MountAdvice:
    is_type = {"xfs", "ext4"}.__contains__
    fstab = fields.optional_child("fstab")  # None from earlier files, which do not have the field
    advice = MountAdvice(
        target=fields.folder("target"),
        device=fields.volume("device"),
        fstype=fields.take(
            "fstype", lambda v: isinstance(v, str) and is_type(v), "xfs or ext4", ""
        ),
        value=fields.words("value", may_be_recommended),
        present=fields.words("present", is_kernel_option),
        policy=fields.words("policy", is_kernel_option),
        reason=fields.sentence("reason"),
        fstab=_fstab_line(fstab) if fstab else None,
    )
    return _ended(fields, advice)


def is_acceptable(line: FstabLine) -> bool:
    """Return whether a recommendation may contain this line of fstab."""
    problems: list[str] = []
    _fstab_line(_Fields({**asdict(line), "options": list(line.options)}, "", problems))
    return not problems


def _fstab_line(fields: _Fields) -> FstabLine:
    is_type = {"xfs", "ext4", "auto"}.__contains__
    line = FstabLine(
        source=fields.volume("source"),
        fstype=fields.take("fstype", lambda v: isinstance(v, str) and is_type(v), "a type", ""),
        options=fields.words("options", may_be_kept_in_fstab),
        dump=fields.whole("dump", 9),
        check=fields.whole("check", 9),
    )
    return _ended(fields, line)


def _disk(fields: _Fields) -> DiskAdvice:
    knobs = tuple(_knob(child) for child in fields.children("knobs"))
    if len({knob.name for knob in knobs}) != len(knobs):
        fields.problem("knobs", "repeats a name")
    target, device = fields.folder("target"), fields.sentence("device")
    name, serial, wwid = (fields.sentence(field) for field in ("name", "serial", "wwid"))
    return _ended(fields, DiskAdvice(target, device, knobs, name, serial, wwid))


def _knob(fields: _Fields) -> KnobAdvice:
    name = fields.sentence("name")
    value, present = fields.sentence("value"), fields.sentence("present")
    refusal = DEVICE_BY_NAME[name].refusal(value) if name in DEVICE_BY_NAME else "is unknown"
    if refusal:
        fields.problem(printable(name)[:40], refusal)
    return _ended(fields, KnobAdvice(name, value, present, fields.sentence("reason")))


def _other_form(fields: _Fields) -> OtherForm:
    kind = fields.take("kind", lambda v: v in (RATIO, BYTES), f"{RATIO} or {BYTES}", RATIO)
    return _ended(fields, OtherForm(kind, fields.sysctls("values"), fields.sentence("note")))


def _measured(fields: _Fields) -> Measured:
    measured = Measured(
        fields.positive("return_s"), fields.whole("runs"), fields.optional("durable_s")
    )
    return _ended(fields, measured)


_TEXTS = (
    *("verdict", "measured_at", "version", "host", "instance", "kernel"),
    *("source", "destination", "fstype"),
)
_WHOLES = (
    *("pairs", "dirtyable_bytes", "available_bytes", "objects", "bytes"),
    *("at_risk_bytes", "ceiling_bytes"),
)


def _evidence(fields: _Fields) -> Evidence:
    texts: dict[str, Any] = {name: fields.sentence(name) for name in _TEXTS}
    wholes: dict[str, Any] = {name: fields.whole(name) for name in _WHOLES}
    evidence = Evidence(
        ratio=fields.positive("ratio"),
        ratio_low=fields.positive("ratio_low"),
        ratio_high=fields.optional("ratio_high"),
        present=_measured(fields.child("present")),
        recommended=_measured(fields.child("recommended")),
        client=fields.later_sentence("client"),
        memory_bytes=fields.later_whole("memory_bytes"),
        volume=fields.later_sentence("volume"),
        class_key=fields.later_class("class_key"),
        **texts,
        **wholes,
    )
    return _ended(fields, evidence)
