# SPDX-License-Identifier: Apache-2.0
"""Whether an ambiguous problem is one object's or the whole pull's, by what the bucket answers."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions

from profiler.pull import problem_scope
from profiler.pull.access import S3Access
from profiler.pull.errors import Explanation
from profiler.pull.problem_scope import ProblemScope

AMBIGUOUS = Explanation("S3 refused the request (HTTP 400)", is_ambiguous=True)


def error(code: str) -> exceptions.ClientError:
    return exceptions.ClientError({"Error": {"Code": code}}, "ListObjectsV2")


class Access(S3Access):
    """Its client answers each listing with the next of `answers`: an error, or None."""

    answers: list[Exception | None]
    asked: list[dict[str, Any]]

    def make_client(self, max_connections: int = 0) -> Any:
        return self

    def list_objects_v2(self, **which: Any) -> None:
        type(self).asked.append(which)
        answer = type(self).answers.pop(0)
        if answer is not None:
            raise answer


def resolve(*answers: Exception | None, times: int = 1) -> tuple[list[Explanation], int]:
    Access.answers, Access.asked = list(answers), []
    scope = ProblemScope(Access())
    found = [scope.resolve(AMBIGUOUS, "bk", "a key") for _ in range(times)]
    assert all(each == {"Bucket": "bk", "Prefix": "a key", "MaxKeys": 1} for each in Access.asked)
    return found, len(Access.asked)


@pytest.mark.parametrize("answer", [None, error("SlowDown")])
def test_while_s3_answers_a_problem_is_one_objects(answer: Exception | None) -> None:
    (found,), _ = resolve(answer)
    assert found == Explanation(AMBIGUOUS.message, concerns_one_object=True)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("ExpiredToken"), "the session token has expired"),
        (exceptions.ConnectionClosedError(endpoint_url="http://h"), "closed the connection"),
    ],
)
def test_an_error_of_the_bucket_affects_all_objects(answer: Exception, message: str) -> None:
    (found,), _ = resolve(answer)
    assert message in found.message
    assert found.hint
    assert not found.concerns_one_object
    assert not found.is_ambiguous


def test_a_good_answer_holds_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve(None, times=3)[1] == 1
    monkeypatch.setattr(problem_scope, "VALID_S", 0.0)
    found, asked = resolve(None, error("ExpiredToken"), times=2)
    assert asked == 2
    assert [each.concerns_one_object for each in found] == [True, False]
