"""Members of an ensemble as text: read, written, refused."""

from __future__ import annotations

import pytest

import twmd_registry
from twmd_registry.errors import SignatureError, SpecError
from twmd_registry.registry.diff import compare_signatures
from twmd_registry.registry.keys import KEYS
from twmd_registry.registry.metric_spec import (
    MAX_MEMBERS,
    AppliedSpec,
    WeightedSpec,
    read_members,
    split_name,
)
from twmd_registry.registry.names import MetricName
from twmd_registry.registry.signature import Signature, parse_signature
from twmd_registry.registry.spec import make_spec, spec_with_keys

WHOLE = str(Signature(AppliedSpec.of(make_spec("ensemble"))))


def test_members_have_weights_keys_and_content_or_a_revision() -> None:
    first, second = read_members("2.5*twmd;temperature=0.1;layer=1%2C3, sbert;model=a/b@0123456789ab")
    assert first == (2.5, MetricName.TWMD, None, {"temperature": "0.1", "layer": "1,3"})
    assert second == (1.0, MetricName.SBERT, "0123456789ab", {"model": "a/b"})
    spec = make_spec("ensemble", members="sbert;model=a/b@0123456789ab;layer=1,sbert;model=a/b@main;layer=1")
    content, revision = spec.members_or_self
    assert (content.model, content.fingerprint, content.revision) == ("a/b", "0123456789ab", None)
    assert (revision.model, revision.fingerprint, revision.revision) == ("a/b", None, "main")


def test_members_are_written_in_parentheses_a_field_or_a_list_but_only_once() -> None:
    assert split_name("ensemble()") == ("ensemble", "")
    with pytest.raises(SpecError, match=r"parenthesis"):
        twmd_registry.load("ensemble(sbert")
    with pytest.raises(SignatureError, match="column 1: .* parenthesis"):
        parse_signature("ensemble(sbert|version:1.0.0")
    members = WHOLE.partition("(")[2].partition(")")[0]
    assert parse_signature(f"ensemble|members:{members}|version:1.0.0") == parse_signature(WHOLE)
    assert make_spec("ensemble", members=["sbert", "2*twmd"]) == make_spec("ensemble", members="sbert,2*twmd")
    for wrong in ([], ["sbert", 3]):
        with pytest.raises(SpecError, match="member"):
            make_spec("ensemble", members=wrong)
    with pytest.raises(SpecError, match="members are set twice"):
        twmd_registry.load("ensemble(sbert)", members="twmd")


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("sbert,twmd", "sbert,trwmd", "members: sbert, twmd and sbert, trwmd"),
        ("sbert,twmd", "sbert,2*twmd", "weights: 1:1 and 1:2"),
        ("sbert,twmd;ngram=2", "sbert,twmd;ngram=3", "member 2, twmd: ngram: 2 and 3 ("),
    ],
)
def test_ensembles_are_compared_member_by_member(one: str, other: str, words: str) -> None:
    found = compare_signatures(
        *(Signature(AppliedSpec.of(make_spec("ensemble", members=members))) for members in (one, other))
    )
    ((what, _),) = found.differences
    assert what.startswith(words)
    assert not found.comparable


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ("nothing", "member 1 of the ensemble, 'nothing': choices: twmd"),
        ("twmd,", "member 2 of the ensemble, '': choices"),
        ("ensemble(sbert,twmd)", "an ensemble cannot be a member"),
        ("0*twmd", "a weight is a number from 1e-06 to 1e\\+06, not '0'"),
        ("twmd;temperature", "'temperature' is not key=value"),
        ("twmd;layer=%ff", "is not percent-encoded UTF-8"),
        ("moverscore;layer=1,3", "member 2 of the ensemble, '3'.*write ',' in a value as %2C"),
        ("moverscore;preset=nobody", "moverscore has no preset 'nobody'"),
    ],
)
def test_impossible_members_are_refused_by_number(members: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        make_spec("ensemble", members=members)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("scale=5.0;", "", "member 1 of the ensemble, stsscore: this specification of stsscore leaves out scale"),
        ("@21de63af9d45", "@xyz", "@xyz is not the content of a model"),
        ("baseline=00009f652bda", "baseline=%2Fetc%2Fpasswd", "/etc/passwd names a file"),
        ("layer=4", "layer=last%3A2;aggregation=mean", "layer=last:2 is a request"),
        ("ensemble(", "twmd(", "expected members in parentheses"),
        ("model=sentence-transformers/all-MiniLM-L6-v2@21de63af9d45", "model=?", "blank"),
        ("|version", "|members:sbert|version", "members already follow"),
        (WHOLE, "ensemble|version:1.0.0", "column 9: expected members in parentheses"),
    ],
)
def test_broken_ensemble_is_refused_with_its_column(before: str, after: str, words: str) -> None:
    assert before in WHOLE
    with pytest.raises(SignatureError, match=r"^column \d+: ") as caught:
        parse_signature(WHOLE.replace(before, after, 1))
    assert words in str(caught.value)


def test_shared_preset_does_not_replace_a_members_own() -> None:
    spec = make_spec("ensemble", "multilingual", members="twmd,2*trwmd;layer=3,sbert;preset=embedded")
    expected = [(1, make_spec("twmd", "multilingual")), (2, make_spec("trwmd", "multilingual", layer=3))]
    expected.append((1, make_spec("sbert", "embedded")))
    assert spec.members == tuple(WeightedSpec(weight, member) for weight, member in expected)
    named = make_spec("ensemble", "mpnet", members="twmd,trwmd")  # there is no such preset of ensembles
    assert [member.model for member in named.members_or_self] == ["sentence-transformers/all-mpnet-base-v2"] * 2
    with pytest.raises(SpecError, match="sbert"):
        make_spec("ensemble", "mpnet", members="twmd,sbert")
    assert spec_with_keys("ensemble;preset=multilingual") == make_spec("ensemble", "multilingual")
    with pytest.raises(SpecError, match="ensemble has no preset 'multi'; did you mean 'multilingual'"):
        spec_with_keys("ensemble;preset=multi")


def test_ensembles_of_unpinned_models_may_be_incomparable() -> None:
    one = make_spec("ensemble", members="sbert;model=a/b;layer=3")
    assert not one.is_pinned
    assert not compare_signatures(*[Signature(AppliedSpec.of(one))] * 2).certain
    assert make_spec("ensemble").is_pinned
    assert compare_signatures(parse_signature(WHOLE), parse_signature(WHOLE)).certain


def test_longest_written_signature_can_be_read() -> None:
    model, layers = "./" + "模" * 85, ",".join(map(str, range(1, 1000, 2)))  # 85 characters of three bytes each
    member = make_spec("twmd", model=model, adapter=f"{model}@0123456789ab", layer=layers, aggregation="mean")
    members = [WeightedSpec(1.0 + number, member) for number in range(MAX_MEMBERS)]
    spec = AppliedSpec(metric=MetricName.ENSEMBLE, members=members)
    signature = Signature(spec)
    assert parse_signature(str(signature)) == signature
    with pytest.raises(SpecError, match=f"at most {MAX_MEMBERS} members"):
        spec.replace(members=[*members, WeightedSpec(99.0, member)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("iterations", 10_001),
        ("ngram", 1001),
        ("centering_size", 1_000_001),
        ("layer", "0-1000"),
        ("aggregation", "pmeans:" + ",".join(["1"] * 17)),
        ("truncation", "cut:1000001"),
        ("truncation", "window:1000001/999999"),
        ("truncation", "window:65/1"),
    ],
)
def test_huge_numbers_are_refused(key: str, value: object) -> None:
    with pytest.raises(SpecError, match=f"^{key}="):
        KEYS[key].parse(value)
