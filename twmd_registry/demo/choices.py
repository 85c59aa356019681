"""What a visitor of the page can choose, and the scorer that a choice stands for."""

from __future__ import annotations

from typing import NamedTuple

from twmd_registry.engine.scorer import Scorer, make_scorer
from twmd_registry.errors import SpecError, menu
from twmd_registry.registry.catalogue import entry
from twmd_registry.registry.names import CONVERGED, EMBEDDED_MODEL, Centering, MetricName
from twmd_registry.registry.options import RunOptions
from twmd_registry.registry.presets import default_preset, presets, presets_of
from twmd_registry.registry.spec import MetricSpec, make_spec

METRICS = tuple(map(str, MetricName))
AS_PRESET = "preset"
"""The choice that leaves a key as the preset has it."""
SWEEPS = (AS_PRESET, "1", "2", "5", "10", CONVERGED)
CENTERINGS = (AS_PRESET, *map(str, Centering))
COLDEST, HOTTEST = 0.01, 0.5
"""Of the temperature slider: the papers' temperatures are from 0.01 to 0.3."""
BACKGROUND = str(default_preset(MetricName.BERTSCORE_CENTERED, None).keys["centering"])
"""The packaged mean vectors of the embedded model, one per layer."""


class PageSettings(NamedTuple):
    """What a visitor sets; every metric takes of it what it uses.

    Attributes:
        preset: A preset's name; a metric without a preset of that name takes its default.
        temperature: T; 0 for the preset's.
        iterations: One of `SWEEPS`.
        centering: One of `CENTERINGS`.
    """

    preset: str = "embedded"
    temperature: float = 0.0
    iterations: str = AS_PRESET
    centering: str = AS_PRESET


def offered_presets() -> tuple[str, ...]:
    """The names of presets that work with the packaged model: nobody's visit makes this machine fetch another."""
    return tuple(dict.fromkeys(name for metric, name in presets() if _preset_for(metric, name) == name))


def preset_for(metric: str, wanted: str) -> str:
    """The preset that a metric takes: the one that is wanted, or its default where it has none of that name.

    Raises:
        SpecError: There is no such metric.
    """
    entry(metric)
    return _preset_for(MetricName(metric), wanted)


def _preset_for(metric: MetricName, wanted: str) -> str:
    own = presets_of(metric).get(wanted)
    works = own is not None and (
        own.model == EMBEDDED_MODEL or (own.model is None and metric is not MetricName.STSSCORE)
    )
    return wanted if works else default_preset(metric, None).name


def spec_of(metric: str, settings: PageSettings) -> MetricSpec:
    """The specification that a visitor's settings make of a metric.

    Args:
        metric: One of `METRICS`.
        settings: What the visitor has set.

    Raises:
        SpecError: There is no such metric, the page does not offer a value, or values exclude each other.
    """
    facts, preset = entry(metric), preset_for(metric, settings.preset)
    _check(settings)
    given: dict[str, object] = {"model": EMBEDDED_MODEL} if presets_of(MetricName(metric))[preset].model is None else {}
    if settings.temperature:
        given["temperature"] = settings.temperature
    if settings.iterations != AS_PRESET:
        given["iterations"] = settings.iterations
    if settings.centering != AS_PRESET:
        given["centering"] = BACKGROUND if settings.centering == Centering.BACKGROUND else settings.centering
    return make_spec(metric, preset, **{name: value for name, value in given.items() if name in facts.keys})


def _check(settings: PageSettings) -> None:
    """Refuse what the page does not offer: a program may send anything, the path of a file here or a million sweeps,
    say.
    """
    for name, value, choices in (
        ("iterations", settings.iterations, SWEEPS),
        ("centering", settings.centering, CENTERINGS),
    ):
        if value not in choices:
            raise SpecError(f"{name}={value!r} is not possible here; {menu(str(value), choices)}.")
    if settings.temperature != 0 and not COLDEST <= settings.temperature <= HOTTEST:
        raise SpecError(
            f"temperature={settings.temperature} is not possible here: expected {COLDEST} to {HOTTEST}, or 0 "
            "for the preset's."
        )


def scorer_for(metric: str, settings: PageSettings) -> Scorer:
    """The scorer of a visitor's settings; arguments and errors as for `spec_of`."""
    return make_scorer(spec_of(metric, settings), RunOptions())


def keep_models() -> list[Scorer]:
    """Load what the page needs, and hold it: a list that keeps the models in memory as long as somebody has it.

    Raises:
        ModelError: The packaged model is not installed.
    """
    held = [scorer_for(metric, PageSettings()) for metric in METRICS]
    for one in held:
        _ = one.spec
    return held
