"""A TorchScript archive as one part of a description."""

from __future__ import annotations

from bnaudit.description import Carrier, Part
from bnaudit.errors import MalformedError, UnreadableError
from bnaudit.reading.byte_source import ByteSource
from bnaudit.reading.checkpoints.tally import Tally
from bnaudit.reading.torchscript.archive import ScriptArchive
from bnaudit.reading.torchscript.bytecode import report_bytecode
from bnaudit.reading.torchscript.facts import inputs, is_traced, trained
from bnaudit.reading.torchscript.folding import folding
from bnaudit.reading.torchscript.modes import mode_dependent
from bnaudit.reading.torchscript.norm_groups import norm_groups
from bnaudit.reading.torchscript.norms import norm_layer
from bnaudit.reading.torchscript.objects import ScriptObject
from bnaudit.reading.torchscript.sites import Reached
from bnaudit.reading.torchscript.states import name_states
from bnaudit.reading.torchscript.values import StoredValue, Value, stored_value


def script_part(archive: ScriptArchive, source: ByteSource) -> Part:
    """What the archive says. Code, constants and tensors that cannot be read become gaps of its library.

    Raises MalformedError for a broken object tree, CapExceededError above the caps.
    """
    library, tree = archive.library, archive.tree("data")
    root = tree.root
    if not isinstance(root, ScriptObject):
        raise MalformedError("data.pkl holds no TorchScript object", where=source.name)
    name_states(tree.objects, library)
    constants = stored_constants(archive)
    reached = Reached(library, tree.objects, constants, source.caps.graph_nodes)
    groups, tally = norm_groups(tree.objects, reached.sites, library), Tally(source.caps, source.name)
    for _ in groups:
        tally.layer()
    layers = tuple(norm_layer(group, library, followed=reached.was_followed(group.owner)) for group in groups)
    modes = mode_dependent(tree.objects, reached.sites, library)
    refs = [*tree.tensors.values(), *(value.ref for value in constants if isinstance(value, StoredValue))]
    counted = trained(tree.objects, library, layers)
    _report(archive, reached)
    return Part(
        name="",
        carrier=Carrier.SCRIPT,
        layers=layers,
        mode_dependent=modes,
        tensors=len(refs),
        floating_dtypes=tuple(sorted({ref.dtype for ref in refs if "float" in ref.dtype})),
        trainable=counted.trainable,
        frozen=counted.frozen,
        inputs=inputs(root, library, archive.examples()),
        operators=reached.operators if library.is_there else None,
        traced=is_traced(tree.objects, library, reached, has_inputs=archive.has("traced_inputs")),
        modules=tuple(found.path for found in tree.objects),
        folded=folding(tree.objects, layers, reached.sites, library),
    )


def stored_constants(archive: ScriptArchive) -> list[Value]:
    """`CONSTANTS.c0` and so on; none when they cannot be read."""
    if not archive.has("constants"):
        return []
    try:
        tree = archive.tree("constants")
    except UnreadableError as error:
        archive.library.report("constants.pkl", str(error))
        return []
    root = tree.root if isinstance(tree.root, list) else []
    return [stored_value(None, f"CONSTANTS.c{index}", item) for index, item in enumerate(root)]


def _report(archive: ScriptArchive, reached: Reached) -> None:
    library = archive.library
    if archive.has("bytecode"):
        report_bytecode(archive)
    elif not library.is_there:
        library.report("code/", "there is no code: what is computed, and in which mode, is not known")
    packed = sum(site.call.operator == "prim.ConstantMKLDNNTensor" for site in reached.sites)
    if packed:
        why = f"{packed} tensors that optimize_for_inference packed are not in the file as such"
        library.report("code/", why, hides_norms=False)
