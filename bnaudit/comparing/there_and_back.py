"""One model, saved, loaded again in a fresh process, and run: what came back otherwise."""

from __future__ import annotations

from bnaudit.comparing.parts import chosen_of
from bnaudit.comparing.shown import Shown
from bnaudit.comparing.sides import Side
from bnaudit.comparison import Comparison, Matching, RoundTrip
from bnaudit.errors import UsageError
from bnaudit.progress import Progress
from bnaudit.records import replace
from bnaudit.settings import Settings


def there_and_back(side: Side, settings: Settings, progress: Progress) -> Shown:
    """The round trip of one part, the one that was named or the first with norm layers.

    Raises UsageError with `static`, which runs nothing.
    """
    if settings.run.static:
        raise UsageError("a round trip runs the model, and --static runs nothing", remedy="leave out one of the two")
    part = next((part for part in side.parts if part.layers), side.parts[0])
    chosen = side.chosen(part)
    if chosen.runner is None:
        needs = f" → {chosen.needs}" if chosen.needs not in chosen.why_not else ""
        trip = RoundTrip(changed=(), outputs=(), not_done=f"{chosen.why_not}{needs}")
    else:
        from bnaudit.round_trip import round_trip

        trip = round_trip(chosen, side.options, progress)
    description = replace(side.description, parts=(part,))
    comparison = Comparison(
        baseline=description,
        subject_part=part,
        baseline_part=part,
        matching=Matching(pairs=()),
        moves=(),
        round_trip=trip,
        not_run=trip.not_done,
        run_needs=chosen.needs,
        remarks=tuple(chosen_of(side.description, part, side.parts)),
    )
    failed = bool(trip.not_done) and chosen.runner is not None and not part.carrier.has_code
    return Shown(description, comparison, description.gaps, failed)
