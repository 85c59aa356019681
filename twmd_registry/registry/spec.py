"""Build specifications from a metric, a preset and the keys that differ."""

from __future__ import annotations

from dataclasses import replace

from twmd_registry.errors import SpecError
from twmd_registry.registry.bert_score import layer_of_model
from twmd_registry.registry.keys import KEYS, Value, key
from twmd_registry.registry.metric_spec import (
    HASH,
    MetricSpec,
    WeightedSpec,
    WrittenMember,
    read_members,
    read_metric_with_keys,
    required_keys,
    split_name,
)
from twmd_registry.registry.metrics import SENTENCE_KEYS, TAIL_KEYS, entry
from twmd_registry.registry.names import SHORT_NAMES, MetricName
from twmd_registry.registry.paths import is_there
from twmd_registry.registry.pipeline import has_own_pipeline
from twmd_registry.registry.presets import Preset, default_preset, preset_named

_CENTERING_DEFAULTS: dict[str, dict[str, Value]] = {
    # The TWMD authors' batch size, and separate means as in their code.
    "batch": {"centering_size": 32, "centering_side": "separate"},
    "corpus": {"centering_side": "joint"},
}
"""Defaults of a centering's parts."""
SOURCE_WEIGHT = 0.2
"""Default weight of the source with ``against=both``. It is the best of 0, 0.1, .. 1 by mean Pearson on every tenth row
of MLQE-PE dev, for twmd with the keys of ``multilingual-source`` (0.590; 0.581 without sources, 0.410 without
references).
"""
_ALL_CENTERING_KEYS = frozenset(name for keys in _CENTERING_DEFAULTS.values() for name in keys)
BERTSCORE = "bertscore"
"""Preset with bert_score's settings."""


def read_keys(metric: str, keys: dict[str, object]) -> dict[str, Value]:
    """Parse the values of a metric's keys; None means "not given"."""
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
    """Build the requested specification from a metric, a preset (for ``members``, their preset) and differing keys.

    An ensemble's members may follow its name in parentheses. The default preset is ``embedded-tuned`` if the metric has
    it; for a given model, its untuned preset: ``embedded``, ``multilingual``, .., and ``paper`` for any other (the
    paper's batch centering, layer by rule; ``regression`` for stsscore, ``published`` for sbert).

    >>> make_spec("trwmd", temperature="0.1").temperature
    0.1
    """
    metric, members = split_name(metric) if isinstance(metric, str) else (metric, None)
    if members is not None and keys.get("members") is not None:
        repeated = f"members are set twice: in parentheses, {members!r}, and as members={keys['members']!r}"
        raise SpecError(f"{repeated}; set them once.")
    values = read_keys(metric, keys if members is None else {**keys, "members": members})
    name = MetricName(metric)
    model = str(values["model"]) if "model" in values else None
    is_named = preset is not None and "members" not in values
    named = preset_named(name, str(preset)) if is_named else _usual_preset(name, model, values)
    if named.name == BERTSCORE and model and "layer" not in values:  # another model has another layer
        table_keys = {"layer": layer_of_model(model)}
        named = replace(
            named, keys={key: value for key, value in {**named.keys, **table_keys}.items() if value is not None}
        )
    return apply_preset(named, values, preset)


def _usual_preset(metric: MetricName, model: str | None, values: dict[str, Value]) -> Preset:
    """Return the default preset, or a model's.

    For sbert, use the model as published if no preset was tuned for it, if it has its own pooling, or if a prompt is
    set, unless keys of token vectors are set.
    """
    usual = default_preset(metric, model)
    if metric is not MetricName.SBERT or values.keys() - {*SENTENCE_KEYS, *TAIL_KEYS}:
        return usual
    published = usual.model is None or "prompt" in values or has_own_pipeline(model)
    return preset_named(metric, "published" if model else "sentence-transformers") if published else usual


def apply_preset(preset: Preset, values: dict[str, Value], preset_of_members: str | None = None) -> MetricSpec:
    """Return the specification of a preset with some keys changed.

    Members in `values` take the keys that they do not set from `preset_of_members`.
    """
    facts = entry(preset.metric)
    preset_keys = {name: KEYS[name].parse(value) for name, value in preset.keys.items() if name in facts.keys}
    merged = {name: value for name, value in (preset_keys | values).items() if value != KEYS[name].neutral}
    if preset.metric is MetricName.ENSEMBLE:
        usual = preset_of_members if "members" in values else None
        written = read_members(str(merged["members"])) if "members" in merged else ()
        members = tuple(WeightedSpec(member.weight, _spec_of_member(member, usual)) for member in written)
        return MetricSpec(metric=preset.metric, members=members)
    if merged.get("model") is None:
        raise SpecError(f"preset {preset.name!r} of {preset.metric} names no model: set model=.")
    same_model = "revision" not in values and merged.get("model") == preset_keys.get("model")
    settled = _settle(merged, values)
    if missing := [name for name in required_keys(preset.metric, settled) if name != "layer" and name not in settled]:
        raise SpecError(f"preset {preset.name!r} of {preset.metric} leaves out {', '.join(missing)}: set it.")
    fingerprint = preset.fingerprint if same_model else None
    return MetricSpec(metric=preset.metric, fingerprint=fingerprint, **settled)  # type: ignore[arg-type]


def keys_to_set(spec: MetricSpec) -> dict[str, str]:
    """Return the fewest keys that turn a metric's name into a specification: what differs from its default, or the
    model and what differs from the default of that model.
    """
    ways, of_model = [], _difference(spec, make_spec(spec.metric, model=spec.model))
    usual = make_spec(spec.metric)
    if usual.model == spec.model and (spec.adapter or not usual.adapter):  # no key takes an adapter away
        ways.append(_difference(spec, usual))
    return min([*ways, {"model": str(spec.model)} | of_model], key=len)


def _difference(spec: MetricSpec, usual: MetricSpec) -> dict[str, str]:
    set_keys, usual_keys = spec.texts(), usual.texts()
    changed = {name: text for name, text in set_keys.items() if usual_keys.get(name) != text}
    undone = {name: KEYS[name].neutral for name in usual_keys if name not in set_keys}
    if "layer" in changed:  # a single layer has no aggregation
        undone.pop("aggregation", None)
    return changed | {name: KEYS[name].format(value) for name, value in undone.items() if value is not None}


def _spec_of_member(written: WrittenMember, usual: str | None) -> MetricSpec:
    """Complete a user's member with the keys of its preset, or of the usual preset."""
    keys: dict[str, object] = dict(written.keys)
    preset = keys.pop("preset", usual)
    fingerprint = written.content if written.content and HASH.fullmatch(written.content) else None
    if written.content is not None and fingerprint is None:
        keys["model"] = f"{keys['model']}@{written.content}"  # a revision, or part of a folder's name
    spec = make_spec(written.metric, str(preset) if preset else None, **keys)
    return spec.replace(fingerprint=fingerprint) if fingerprint else spec


def spec_with_keys(metric: str) -> MetricSpec:
    """Read the specification of one metric with keys, written like a member, or of an ensemble with a preset."""
    name, _, preset = metric.partition(";preset=")
    if name == MetricName.ENSEMBLE:
        return make_spec(name, preset or None)
    return _spec_of_member(read_metric_with_keys(metric), None)


def _settle(merged: dict[str, Value], values: dict[str, Value]) -> dict[str, Value]:
    """Drop the preset's keys that have no effect with the other keys, and fill in defaults."""
    defaults = _CENTERING_DEFAULTS.get(str(merged.get("centering")).partition(":")[0], {})
    unused = _ALL_CENTERING_KEYS - defaults.keys() - values.keys()
    if merged.get("against") == "both":
        defaults = {"source_weight": SOURCE_WEIGHT, **defaults}
    elif "source_weight" not in values:
        unused |= {"source_weight"}
    if merged.get("special") != "partners" and "padding" not in values:
        unused |= {"padding"}
    if "stopwords" not in merged and "stopword_unit" not in values:
        unused |= {"stopword_unit"}
    if isinstance(merged.get("layer"), int) and "aggregation" not in values:
        unused |= {"aggregation"}
    return defaults | {name: value for name, value in merged.items() if name not in unused}
