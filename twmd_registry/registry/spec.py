"""Specifications made from a metric, a preset and keys; which keys go together, and which are needed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import get_args

from twmd_registry.errors import SpecError
from twmd_registry.registry.bert_score import layer_of_model
from twmd_registry.registry.hashes import LENGTH
from twmd_registry.registry.keys import KEYS, Value, key, kind_of_centering
from twmd_registry.registry.keys import MetricSpec as MetricSpec  # noqa: PLC0414 (others import it from here)
from twmd_registry.registry.members import check_metric_with_keys, read_members, write_members
from twmd_registry.registry.metrics import SENTENCE_KEYS, TAIL_KEYS, entry
from twmd_registry.registry.names import EMBEDDED_MODEL, SHORT_NAMES, Aggregation, Centering, MetricName
from twmd_registry.registry.paths import is_there
from twmd_registry.registry.pipeline import has_own_pipeline
from twmd_registry.registry.presets import Preset, default_preset, preset_named

_CENTERING_DEFAULTS: dict[Centering, dict[str, Value]] = {
    # The TWMD authors' own number of segments, and separate means as in their code.
    "batch": {"centering_size": 32, "centering_side": "separate"},
    "corpus": {"centering_side": "joint"},
}
"""The keys that a centering uses, with the values where none is given."""
SOURCE_WEIGHT = 0.2
"""The source's weight in ``against=both``: the best of 0, 0.1, .. 1 by mean Pearson with ratings of every tenth row of
MLQE-PE dev, for twmd with the keys of ``multilingual-source`` (0.590; 0.581 without sources, 0.410 without references).
"""
_ALL_CENTERING_KEYS = frozenset(name for keys in _CENTERING_DEFAULTS.values() for name in keys)


BERTSCORE = "bertscore"
"""The preset with bert_score's settings."""


def read_keys(metric: str, keys: dict[str, object]) -> dict[str, Value]:
    """Read the values of the keys that a user gave for a metric; None means "not given"."""
    allowed = entry(metric).keys
    values = {name: key(name, allowed, str(metric)).parse(value) for name, value in keys.items() if value is not None}
    model = values.get("model")
    if isinstance(model, str) and "@" in model and not is_there(model):
        values["model"], _, revision = model.partition("@")
        values["revision"] = KEYS["revision"].parse(revision)
    if values.get("model") in SHORT_NAMES:
        values["model"] = SHORT_NAMES[str(values["model"])]
    return values


def make_spec(metric: str, preset: str | None = None, **keys: object) -> MetricSpec:
    """Build the requested specification from a metric, a preset (with ``members``, theirs) and the keys that differ.

    Without a preset the one that was tuned for the given model is taken: ``embedded`` when no model is named, ``paper``
    (the paper's batch-centered setting, layer by rule; ``regression`` for stsscore, ``published`` for sbert) for any
    other model.

    >>> make_spec("trwmd", temperature="0.1").temperature
    0.1
    """
    values = read_keys(metric, keys)
    name = MetricName(metric)
    model = str(values["model"]) if "model" in values else None
    named = preset_named(name, preset) if preset and "members" not in values else _usual_preset(name, model, values)
    if named.name == BERTSCORE and model and "layer" not in values:  # of another model, its own layer
        own = {"layer": layer_of_model(model)}
        named = replace(named, keys={key: value for key, value in {**named.keys, **own}.items() if value is not None})
    return apply_preset(named, values, preset)


def _usual_preset(metric: MetricName, model: str | None, values: dict[str, Value]) -> Preset:
    """Return the preset that was tuned for the given model; of sbert, the model as its authors made it where none was,
    where its pooling is its own, or where a prompt is given, unless keys of token vectors are.
    """
    usual = default_preset(metric, model)
    if metric is not MetricName.SBERT or values.keys() - {*SENTENCE_KEYS, *TAIL_KEYS}:
        return usual
    published = usual.model is None or "prompt" in values or has_own_pipeline(model)
    return preset_named(metric, "published" if model else "sentence-transformers") if published else usual


def apply_preset(preset: Preset, values: dict[str, Value], preset_of_members: str | None = None) -> MetricSpec:
    """Return the specification of a preset with some keys set otherwise.

    Members of an ensemble that are given take the keys that they do not set from `preset_of_members`.
    """
    facts = entry(preset.metric)
    preset_keys = {name: KEYS[name].parse(value) for name, value in preset.keys.items() if name in facts.keys}
    merged = without_neutral(preset_keys | values)
    same_model = "revision" not in values and merged.get("model") == preset_keys.get("model")
    spec = MetricSpec(
        metric=preset.metric,
        fingerprint=preset.fingerprint if same_model and "model" in facts.keys else None,
        **_settle(merged, values),  # type: ignore[arg-type]
    )
    if spec.members is not None:
        return spec.replace(members=_expand(spec.members, preset_of_members if "members" in values else None))
    if spec.model is None:
        raise SpecError(f"preset {preset.name!r} of {preset.metric} names no model: give model=.")
    if missing := [name for name in required_keys(spec) if name != "layer" and getattr(spec, name) is None]:
        raise SpecError(f"preset {preset.name!r} of {preset.metric} leaves out {', '.join(missing)}: give a value.")
    check_keys_together(spec)
    return spec


def keys_to_set(spec: MetricSpec) -> dict[str, str]:
    """Return the keys that make a specification of its metric: the model, and what differs from its default."""
    set_keys, usual = spec.texts(), make_spec(spec.metric, model=spec.model).texts()
    if spec.model != EMBEDDED_MODEL:
        del usual["model"]
    changed = {name: text for name, text in set_keys.items() if usual.get(name) != text}
    undone = {name: KEYS[name].neutral for name in usual if name not in set_keys}
    return changed | {name: KEYS[name].format(value) for name, value in undone.items() if value is not None}


def _expand(members: str, usual: str | None) -> str:
    """Add to the members that a user wrote every key of their presets, or of the usual preset."""
    specs = []
    for weight, metric, content, keys in read_members(members):
        values: dict[str, object] = dict(keys)
        preset = values.pop("preset", usual)
        is_fingerprint = content is not None and re.fullmatch(rf"[0-9a-f]{{{LENGTH}}}", content)
        if content is not None and not is_fingerprint:
            values["model"] = f"{values['model']}@{content}"  # a revision, or a folder with such a name
        spec = make_spec(metric, str(preset) if preset else None, **values)
        specs.append((weight, spec.replace(fingerprint=content) if is_fingerprint else spec))
    return write_members(specs)


def member_specs(spec: MetricSpec) -> tuple[tuple[float, MetricSpec], ...]:
    """Return the members of an ensemble, checked, with their weights."""
    specs = []
    for weight, metric, content, keys in read_members(spec.members or ""):
        allowed = entry(metric).keys
        values = {name: key(name, allowed, str(metric)).parse(value) for name, value in keys.items()}
        member = MetricSpec(metric=metric, fingerprint=content, **without_neutral(values))  # type: ignore[arg-type]
        check_keys_together(member)
        specs.append((weight, member))
    return tuple(specs)


def spec_with_keys(metric: str) -> MetricSpec:
    """Read the specification of one metric with keys, as a member is written, or of the ensemble with a preset."""
    name, _, preset = metric.partition(";preset=")
    if name == MetricName.ENSEMBLE:
        return make_spec(name, preset or None)
    check_metric_with_keys(metric)
    # An ensemble of this metric alone: members and metrics with keys are read by the same parser, with their presets.
    return member_specs(make_spec(MetricName.ENSEMBLE, members=metric))[0][1]


def members_or_self(spec: MetricSpec) -> tuple[MetricSpec, ...]:
    """Return the members of an ensemble without their weights; of another metric, the specification itself."""
    return tuple(member for _, member in member_specs(spec)) if spec.members else (spec,)


def is_pinned(spec: MetricSpec) -> bool:
    """Return whether a specification names the content of every model."""
    return all(member.fingerprint is not None for member in members_or_self(spec))


def without_neutral(values: dict[str, Value]) -> dict[str, Value]:
    """Return values without those that do nothing, so that each setting has one form."""
    return {name: value for name, value in values.items() if value != KEYS[name].neutral}


def required_keys(spec: MetricSpec) -> tuple[str, ...]:
    """Return the keys that an applied specification must set, in signature order."""
    used = _CENTERING_DEFAULTS.get(spec.centering_kind, {})
    optional = {"revision", "adapter", *_ALL_CENTERING_KEYS} - used.keys()
    optional |= set() if spec.against == "both" else {"source_weight"}
    optional |= set(entry(spec.metric).keys) - {"model", *TAIL_KEYS} if spec.reads_sentences else set()
    return tuple(name for name in entry(spec.metric).keys if name not in optional and KEYS[name].neutral is None)


def check_whole(spec: MetricSpec) -> None:
    """Raise SpecError for a specification that cannot be scored by: with keys that its metric does not use, without one
    that it needs, or with values that exclude each other.
    """
    for name in spec.values():
        key(name, entry(spec.metric).keys, str(spec.metric))
    if spec.members:
        member_specs(spec)
        return
    if missing := [name for name in required_keys(spec) if name != "layer" and getattr(spec, name) is None]:
        raise SpecError(f"this specification of {spec.metric} leaves out {', '.join(missing)}: give a value.")
    check_keys_together(spec)


def check_keys_together(spec: MetricSpec) -> None:
    """Raise SpecError where values exclude each other."""
    several, problem = len(spec.layers) > 1 or (str(spec.layer).startswith("last") and spec.layer != "last:1"), ""
    used = _CENTERING_DEFAULTS.get(spec.centering_kind, {})
    odd = sorted(name for name in _ALL_CENTERING_KEYS - used.keys() if getattr(spec, name) is not None)
    if several and not spec.aggregation:
        choices = ", ".join(kind for kind in get_args(Aggregation) if kind != "single")
        problem = f"layer={spec.layer} selects several layers: set aggregation to one of: {choices}"
    elif spec.aggregation and not several:
        needed = f"aggregation={spec.aggregation} needs several layers, and layer={spec.layer} is one"
        problem = f"{needed}: expected 2-6, 1,3,6 or last:5, for example"
    elif spec.special == "partners" and (spec.ngram or spec.metric is not MetricName.BERTSCORE_CENTERED):
        problem = "special=partners is bert_score's way of matching tokens: for bertscore_centered without ngram"
    elif spec.padding and spec.special != "partners":
        problem = f"padding={spec.padding} is bert_score's way of matching tokens: set special=partners, too"
    elif spec.vectors == "raw" and spec.centering_kind == "sentence":
        problem = "centering=sentence makes the mean of raw vectors zero: use vectors=unit, or another centering"
    elif spec.symmetric and spec.first:
        problem = f"first={spec.first} has no meaning with symmetric=yes: both orders are read"
    elif spec.stride and spec.metric is MetricName.STSSCORE:
        problem = "truncation=window averages the vectors of a token, and stsscore has none: use cut or cut:N"
    elif spec.source_weight is not None and spec.against != "both":
        problem = f"source_weight has no meaning with against={spec.against or 'reference'}: set against=both"
    elif spec.stopword_unit and not spec.stopwords:
        problem = f"stopword_unit={spec.stopword_unit} has no meaning without stop words: give stopwords"
    elif spec.align and (spec.baseline or spec.against or spec.idf in {"corpus", "references"}):
        counted = "no idf that is counted over the scored texts"
        problem = f"align=sentences takes no baseline, {counted}, and no against=source"
    elif odd:
        other = f"{odd[0]} has no meaning with centering={spec.centering_kind}"
        problem = f"{other}: give it with centering=batch or corpus only"
    if problem := problem or _sentence_problem(spec):
        raise SpecError(f"{problem}.")


def _sentence_problem(spec: MetricSpec) -> str:
    """Return what excludes what, of a specification by sentence vectors or by token vectors; empty for nothing."""
    if not spec.reads_sentences:
        return f"prompt={spec.prompt} is set before whole texts: leave out vectors" if spec.prompt else ""
    if of_tokens := next((name for name in spec.values() if name not in {*SENTENCE_KEYS, *TAIL_KEYS}), None):
        return (
            f"{of_tokens} is about token vectors, and sbert takes the model's own sentence vectors: give vectors, too"
        )
    if spec.stride:
        return "truncation=window averages the vectors of a token, and a sentence vector has none: use cut or cut:N"
    return ""


def _settle(merged: dict[str, Value], values: dict[str, Value]) -> dict[str, Value]:
    """Leave out keys of the preset that the other keys leave without a use, and fill in defaults."""
    defaults = _CENTERING_DEFAULTS.get(kind_of_centering(merged.get("centering")), {})
    unused = _ALL_CENTERING_KEYS - defaults.keys() - values.keys()
    if merged.get("against") == "both":
        defaults = {"source_weight": SOURCE_WEIGHT, **defaults}
    elif "source_weight" not in values:
        unused |= {"source_weight"}
    if merged.get("special") != "partners" and "padding" not in values:
        unused |= {"padding"}
    if "stopwords" not in merged and "stopword_unit" not in values:
        unused |= {"stopword_unit"}
    return defaults | {name: value for name, value in merged.items() if name not in unused}
