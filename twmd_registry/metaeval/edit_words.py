"""Words that edits exchange, drop or add: small lists for English, of lower-case forms."""

from __future__ import annotations

AUXILIARIES = ("is", "are", "was", "were", "am", "can", "could", "will", "would", "should", "must", "may", "might")
"""Verbs that take a ``not`` behind them wherever they stand."""
PERFECT = ("has", "have", "had")
"""Verbs that take one before a participle only."""
DO = ("do", "does", "did")
"""Verbs that have one, and are hardly ever to be given one."""

CONTRACTED = {
    **{f"{verb}n't": verb for verb in ("is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "could", "would", "should", "must")},
    "can't": "can",
    "won't": "will",
}
"""What a contraction with ``n't`` negates."""

NUMBER_WORDS = (
    ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),
    ("hundred", "thousand", "million", "billion"),
    ("hundreds", "thousands", "millions", "billions"),
)
"""Numbers that stand for each other; ``one`` and ``second`` are left out, for they are other things as well."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
_TITLES = ("Mr", "Mrs", "Ms", "Dr", "Sir", "Lady", "Lord")
NOT_NAMES = frozenset({*_DAYS, *_MONTHS, *_TITLES})
"""Words with a capital that name nobody and no place."""

CONJUNCTIONS = ("and", "but", "because", "although", "though", "while", "whereas", "unless", "until", "when", "where", "which", "who", "if", "after")
"""Words that open a clause."""

_PAIRS = """
good bad, better worse, best worst, high low, higher lower, highest lowest, big small, bigger smaller, large small, larger smaller,
largest smallest, long short, longer shorter, old new, old young, older younger, early late, earlier later, first last, strong weak,
stronger weaker, rich poor, hot cold, warm cool, near far, safe dangerous, easy difficult, easier harder, possible impossible,
legal illegal, guilty innocent, alive dead, open closed, full empty, true false, right wrong, public private, male female, major minor,
positive negative, similar different, happy sad, cheap expensive, fast slow, faster slower, heavy light, clean dirty, healthy sick,
certain uncertain, likely unlikely, able unable, necessary unnecessary, successful unsuccessful, domestic foreign, northern southern,
eastern western, more less, most least, many few, always never, often rarely, everyone nobody, everything nothing, before after,
above below, inside outside, increase decrease, increases decreases, increased decreased, increasing decreasing, rise fall, rises falls,
rose fell, rising falling, win lose, wins loses, won lost, winner loser, victory defeat, success failure, buy sell, buys sells,
bought sold, accept reject, accepts rejects, accepted rejected, allow forbid, allows forbids, allowed forbidden, support oppose,
supports opposes, supported opposed, begin end, begins ends, began ended, start finish, started finished, remember forget,
remembered forgot, love hate, loved hated, agree disagree, agreed disagreed, succeed fail, succeeded failed, arrive leave, arrived left,
improve worsen, improved worsened, friend enemy, friends enemies, peace war, day night, morning evening, majority minority,
maximum minimum, profit loss, profits losses, advantage disadvantage, beginning end, north south, east west, hope fear, hopes fears
"""


def _both_ways(pairs: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs.split(","):
        one, other = pair.split()
        found[one] = (*found.get(one, ()), other)
        found[other] = (*found.get(other, ()), one)
    return found


ANTONYMS = _both_ways(_PAIRS)
"""By word, what says the opposite in the same form."""
