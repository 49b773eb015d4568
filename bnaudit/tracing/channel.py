"""The use case: read the artifact, find the channel, run the model where inputs are given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bnaudit.description import Description, NormKind, NormLayer, Part
from bnaudit.records import replace
from bnaudit.tracing.layer_search import check_channel, layer_of, part_of
from bnaudit.tracing.state import mode_of, state_of
from bnaudit.tracing.trace_values import ChannelTrace

if TYPE_CHECKING:
    from bnaudit.run_options import RunOptions
    from bnaudit.settings import Settings


def trace(path: str | Path, layer: str, channel: int = 0, settings: Settings | None = None) -> ChannelTrace:
    """One channel of one norm layer of a file, or of a part of one (`checkpoint.pt#state_dict_ema`).

    Nothing is run unless the settings' run options give inputs; a model alone tells what a state dict does not.

    Raises UsageError for a layer, part or channel that does not exist, UnreadableError and NotAuditedError for the
    file, and what opening and running the model raises.
    """
    from bnaudit.auditing import describe
    from bnaudit.comparing.paths import located
    from bnaudit.settings import Settings

    settings = settings or Settings()
    place, options = located(path), settings.run
    description = describe(place.path, settings)
    chosen = part_of(description, place.part if place.part is not None else options.part or None, layer)
    found = layer_of(chosen, layer, description.artifact.path)
    check_channel(found, channel)
    static = _static(description, chosen, found, channel)
    if options.inputs is None and options.model is None:
        return static
    return _observed(place.path, description, replace(options, part=chosen.name), static)


def _static(description: Description, part: Part, layer: NormLayer, channel: int) -> ChannelTrace:
    others = [other.name for other in description.parts if other is not part and _has(other, layer)]
    remarks = (f"the same layer is also in {', '.join(name or 'the whole file' for name in others)}",) if others else ()
    return ChannelTrace(
        path=description.artifact.path,
        part=part.name,
        layer=layer.name,
        kind=layer.kind,
        class_name=(layer.class_name or "").rpartition(".")[2],
        channel=channel,
        channels=layer.channels,
        state=state_of(layer, channel),
        mode=mode_of(layer, part),
        tracks=_tracks(layer),
        remarks=remarks,
    )


def _has(part: Part, layer: NormLayer) -> bool:
    return any(other.name == layer.name for other in part.layers)


def _tracks(layer: NormLayer) -> bool | None:
    if layer.kind in (NormKind.GROUP, NormKind.LAYER, NormKind.RMS):
        return False
    if layer.running_mean is not None or layer.running_var is not None:
        return True
    return layer.tracks_statistics


def _observed(path: Path, description: Description, options: RunOptions, static: ChannelTrace) -> ChannelTrace:
    from bnaudit.measuring import choose, completed, opened
    from bnaudit.tracing.observing import feed, observe

    chosen = choose(path, description, options)
    with opened(chosen) as session:
        whole = completed(description, session, chosen.subject)
        part = next((each for each in whole.parts if each.name == session.part.name), session.part)
        layer = layer_of(part, static.layer, static.path)
        if options.inputs is None:
            return _static(whole, part, layer, static.channel)
        fed = feed(session, options)
        seen = observe(session, fed.batch, layer, static.channel, options.seed)
        runner = session.runner
    ran = _static(whole, part, layer, static.channel)
    return replace(
        ran,
        mode=static.mode,
        remarks=(*ran.remarks, *fed.remarks, *seen.remarks),
        inputs=fed.source,
        rows=fed.rows,
        runner=runner,
        in_eval=seen.in_eval,
        in_training=seen.in_training,
    )
