"""Whether an error is one object's or all's, by what a bucket that is asked says."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions

from profiler.pull import doubt
from profiler.pull.access import S3Access
from profiler.pull.doubt import Doubts
from profiler.pull.errors import Explanation

IN_DOUBT = Explanation("S3 refuses the request (HTTP 400)", is_in_doubt=True)


def error(code: str) -> exceptions.ClientError:
    return exceptions.ClientError({"Error": {"Code": code}}, "ListObjectsV2")


class Access(S3Access):
    """Its client answers a listing by what `answers` has next: an error, or None."""

    answers: list[Exception | None]
    asked: list[dict[str, Any]]

    def make_client(self, max_connections: int = 0) -> Any:
        return self

    def list_objects_v2(self, **which: Any) -> None:
        type(self).asked.append(which)
        answer = type(self).answers.pop(0)
        if answer is not None:
            raise answer


def settle(*answers: Exception | None, times: int = 1) -> tuple[list[Explanation], int]:
    Access.answers, Access.asked = list(answers), []
    doubts = Doubts(Access())
    found = [doubts.settle(IN_DOUBT, "bk", "a key") for _ in range(times)]
    assert all(each == {"Bucket": "bk", "Prefix": "a key", "MaxKeys": 1} for each in Access.asked)
    return found, len(Access.asked)


@pytest.mark.parametrize("answer", [None, error("SlowDown")])
def test_while_s3_answers_it_is_one_objects(answer: Exception | None) -> None:
    (found,), _ = settle(answer)
    assert found == Explanation(IN_DOUBT.message, concerns_one_object=True)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("ExpiredToken"), "the session token has expired"),
        (exceptions.ConnectionClosedError(endpoint_url="http://h"), "closed the connection"),
    ],
)
def test_what_s3_says_of_the_bucket_is_of_all(answer: Exception, message: str) -> None:
    (found,), _ = settle(answer)
    assert message in found.message
    assert found.hint
    assert not found.concerns_one_object
    assert not found.is_in_doubt


def test_a_good_answer_holds_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settle(None, times=3)[1] == 1
    monkeypatch.setattr(doubt, "VALID_S", 0.0)
    found, asked = settle(None, error("ExpiredToken"), times=2)
    assert asked == 2
    assert [each.concerns_one_object for each in found] == [True, False]
