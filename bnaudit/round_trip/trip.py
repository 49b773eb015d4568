"""The round trip itself: both models on the same inputs, what they hold and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from bnaudit.comparison import OutputPair, RoundTrip
from bnaudit.description import Carrier
from bnaudit.errors import BnauditError, UsageError, not_installed
from bnaudit.measuring import Chosen, choose, opened
from bnaudit.parting.inputs import Inputs, open_inputs, repeatable
from bnaudit.parting.output_pairs import compared, paired
from bnaudit.parting.side import Ran, run_side
from bnaudit.progress import Progress, Silent
from bnaudit.records import replace
from bnaudit.round_trip.factory_names import factory_name
from bnaudit.round_trip.fresh_process import in_fresh_process
from bnaudit.run_options import RunOptions
from bnaudit.session import NotPossibleError

_OTHER_SEED = 1_000_003
"""Added to the seed in the fresh process: a factory that draws draws something else there."""


class Sent(NamedTuple):
    """What the fresh process is given."""

    path: Path
    """What was saved."""
    factory: str
    """`file.py:callable`; "": the module was saved whole."""
    arguments: Mapping[str, Any]
    inputs: Inputs


class Returned(NamedTuple):
    """What it gives back."""

    contents: Mapping[str, Any]
    refused: tuple[str, ...]
    ran: Ran


def round_trip(chosen: Chosen, options: RunOptions, progress: Progress | None = None) -> RoundTrip:
    """Save the model as it is usually saved, load it in a fresh process, put it into eval mode, run the same inputs.

    A model of a factory goes as its state_dict; a live or pickled module for which no factory is given goes whole.
    With a pickled module and `options.model`, the module's state goes into the factory's model. The user's model stays
    as it is. Why nothing was compared is in `not_done`. Raises UsageError for options that name what does not exist.
    """
    try:
        return _round_trip(chosen, repeatable(options), progress or Silent())
    except UsageError:
        raise
    except BnauditError as error:
        return RoundTrip(changed=(), outputs=(), not_done=str(error))
    except MemoryError as error:
        return RoundTrip(changed=(), outputs=(), not_done=f"memory is short: {error}")
    except ModuleNotFoundError as error:
        known = not_installed(error)
        if known is None:
            raise
        return RoundTrip(changed=(), outputs=(), not_done=str(known))


def _round_trip(chosen: Chosen, options: RunOptions, progress: Progress) -> RoundTrip:
    if chosen.runner is None:
        raise NotPossibleError(f"it was not run: {chosen.why_not}", remedy=f"give {chosen.needs}")
    _check_carrier(chosen)
    from bnaudit.torch_session.model_contents import changed
    from bnaudit.torch_session.opening import model_of
    from bnaudit.torch_session.saving import check_is_module, in_eval, save
    from bnaudit.torch_session.surroundings import kept_surroundings

    factory = factory_name(options.model)
    subject = chosen.subject
    own = replace(subject.options, model=None) if _is_pickled(chosen) else subject.options
    with TemporaryDirectory() as folder, kept_surroundings(), np.errstate(all="ignore"):
        model = model_of(subject.path, subject.description, own)
        check_is_module(model)
        before, inputs, ran = in_eval(model), *_run(model, None, options, progress, "the model")
        path = Path(folder) / "model.pt"
        save(model, path, whole=not factory)
        progress.forward("the model, saved and loaded in a fresh process", 1, 1)
        sent = Sent(path, factory, dict(options.model_args), inputs)
        returned = in_fresh_process(come_back, sent, _plain(options))
    refused = {text.partition(" ")[0] for text in returned.refused}
    others = [text for text in changed(before, returned.contents) if text.partition(" ")[0] not in refused]
    return RoundTrip(changed=(*returned.refused, *others), outputs=_outputs(ran, returned.ran))


def _check_carrier(chosen: Chosen) -> None:
    described = chosen.subject.description
    carriers = {part.carrier for part in described.parts} if described is not None else set()
    coded = sorted(carrier.value for carrier in carriers if carrier.has_code)
    if coded:
        what = f"an {coded[0]}" if coded[0][0] in "aeiou" or coded[0].startswith("ONNX") else f"a {coded[0]}"
        raise NotPossibleError(f"{what} carries its own code: nothing is lost by saving it", remedy="give its source")


def _is_pickled(chosen: Chosen) -> bool:
    """A whole module in a file that may be unpickled: it is the model, and --model what its state goes into."""
    described = chosen.subject.description
    if described is None or not chosen.subject.options.trust_pickle:
        return False
    return any(part.carrier is Carrier.MODULE for part in described.parts)


def _plain(options: RunOptions) -> RunOptions:
    """What of the options holds in the fresh process: no live object crosses."""
    return replace(options, model=None, inputs=None, model_args={}, trust_pickle=False, run=False)


def come_back(sent: Sent, options: RunOptions) -> Returned:
    """In the fresh process: load, put into eval mode, look, run."""
    from bnaudit.torch_session.saving import in_eval, load

    loaded = load(sent.path, sent.factory, sent.arguments, options.seed + _OTHER_SEED)
    contents = in_eval(loaded.model)
    with np.errstate(all="ignore"):
        _, ran = _run(loaded.model, sent.inputs, options, Silent(), "the model")
    return Returned(contents, loaded.refused, ran)


def _run(
    model: object, inputs: Inputs | None, options: RunOptions, progress: Progress, name: str
) -> tuple[Inputs, Ran]:
    with opened(choose(None, None, replace(options, model=model, model_args={}))) as session:
        given = inputs or open_inputs(session, options)
        return given, run_side(session, given, options, progress, name, given.pool.size, twice=False)


def _outputs(before: Ran, after: Ran) -> tuple[OutputPair, ...]:
    together, _ = paired(before, after)
    return tuple(compared(before, after, pair) for pair in together)
