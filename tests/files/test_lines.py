"""Line ends, invalid text, and content that is not one text per line."""

from __future__ import annotations

import gzip

import pytest

from twmd_registry.errors import FileError
from twmd_registry.files.lines import check_lines, decode, digest_of_file, read_nbest, split_lines

INSIDE = "a\u2028b\x0cc\x85d\x0be\x1cf\ufeff"
"""Characters that do not end lines."""


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (f"\ufeff{INSIDE}\r\nb\rc\r\r\n\r\n\nlast\r", [INSIDE, "b\rc\r", "", "", "last"]),
        ("one", ["one"]),
        ("\n", [""]),
        ("", []),
    ],
)
def test_one_cr_before_a_line_feed_is_dropped(content: str, lines: list[str]) -> None:
    assert split_lines(decode("a.txt", content.encode())) == lines


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"a\rb", "CR alone"),
        ("it rains".encode("utf-16"), "UTF-16"),
        ("it rains".encode("utf-32"), "UTF-16 or UTF-32"),
        ("\u00e9".encode("latin-1"), "not UTF-8"),
    ],
)
def test_invalid_utf8_is_named(content: bytes, word: str) -> None:
    with pytest.raises(FileError, match=word):
        decode("a.txt", content)


def test_file_digest_ignores_line_ends() -> None:
    assert digest_of_file(b"a\r\nb\r\n") == digest_of_file(b"a\nb\n") != digest_of_file(b"a\rb\n")
    for start in (b"PAR1", gzip.compress(b"")[:4]):
        assert digest_of_file(start + b"\r\n") != digest_of_file(start + b"\n")


SGML = '<refset setid="wmt19" trglang="de">\n<doc docid="1">\n<p>\n<seg id="1">Ja.</seg>\n</p>\n</doc>\n</refset>'
XML = "<?xml version='1.0' encoding='utf-8'?>\n<dataset id=\"wmt24\">\n  <doc id=\"1\">\n    It rains.</doc></dataset>"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (SGML, "XML or SGML"),
        (SGML.replace("\n", ""), "XML or SGML"),
        (f"\n{XML}", "XML or SGML"),
        ("<!DOCTYPE html>\n<p>It rains.", "XML or SGML"),
        ("0 ||| it rains ||| LM0= -3 ||| -1.5\n0 ||| it rained ||| LM0= -4 ||| -2\n", "n-best"),
        ("it rains ||| es regnet\nyes ||| ja", r"\|\|\|"),
        ("it rains\tes regnet\n\nyes\t", "tabs"),
        ('id,hyp\n1,"it rains, again"\n2,\n', "table"),
        ("hyp;ref\na;b", "table"),
        ('["a", "b"]\n["c", "d"]', "lists"),
        ("{'a': 'b'}\n{'a': None}", "lists or objects"),
        ('{"a": "b"},\n{"a": "c"},', "objects"),
        ('{"a": "b"}\n{"a": "c', "objects"),
        ('"It rains!","ja"\n"He said ""no"", twice","nein"', "CSV"),
        ("| hyp | ref |\n|---|---|\n| a | b |", "Markdown"),
        ("<!-- wmt -->\n<seg>a</seg>", "XML"),
        ("<tu><tuv xml:lang='en'><seg>a</seg></tuv></tu>\n<sentence>b</sentence>", "XML"),
        ("<corpus>\n<s id='1'>It rains.</s>\nno\n</corpus>", "XML"),
        ("1\n00:00:01,000 --> 00:00:02,500\nIt rains.", "subtitles"),
        ("WEBVTT\n\n00:01.000 --> 00:02.500\nIt rains.", "subtitles"),
        (r'"He said \"no\""', "JSON"),
        ('"caf\\u00e9"', "JSON"),
        ("\n".join(f'"Yes {k}."' for k in "abcde"), "JSON"),
        ("\n".join(f"'Yes {k}.'," for k in "abcde"), "Python"),
        ("\n".join(f"{k}. yes" for k in range(1, 6)), "numbered"),
        ("\n\n".join(f"utt000{k} yes" for k in range(5)), "numbered"),
        ("\n".join(f"yes (speaker-{k})" for k in range(1, 6)), "numbered"),
        ('[\n "a",\n "b",', "JSON"),
    ],
)
def test_structured_lines_are_refused_with_a_remedy(content: str, word: str) -> None:
    with pytest.raises(FileError, match=f"contains .*{word}.*: .*Then so.$"):
        check_lines("a.txt", content.split("\n"), " Then so.")


@pytest.mark.parametrize(
    "content",
    [
        "",
        " \n\n",
        "it\trains\nyes",
        "[music]\n[1]\n[ ]",
        "<b>Yes</b>\nno",
        "<i>He said:</i> yes",
        "<mark>One</mark> or\ntwo <mark>b</mark>",
        "12:30 --> 14:00",
        "a ||| b\nno",
        "1 | 2\n3 | 4",
        '"Yes."\n"No."',
        '"Yes", "no", he said\n"No"',
        "|x| is\n|y|",
        "{x} is a set\n{y}",
        "1. a\n2. b\n3. c\n4. d\n6. e",
        "2001 a\n2002 b\n2003 c\n2004 d\n2005 e",
        "yes,no",
        "Yes, no\nNo, yes",
        "well,yes\nno",
        "\u4f60\u597d,\u4e16\u754c\n\u662f,\u4e0d",
    ],
)
def test_plain_text_lines_are_accepted(content: str) -> None:
    check_lines("a.txt", content.split("\n"))


def test_nbest_list_has_the_texts_of_every_segment() -> None:
    lines = [
        "0 ||| it rains ||| LM0= -3 ||| -1",
        "1 ||| yes ||| f ||| 2",
        "0 ||| it rained ||| LM0= -4 ||| -2",
        "1 |||  ||| f",
    ]
    assert read_nbest("a", lines) == [["it rains", "it rained"], ["yes", ""]]
    assert read_nbest("a", [*lines, "a text"]) is None
    with pytest.raises(FileError, match="segment 2"):
        read_nbest("a", [*lines, "3 ||| x"])
