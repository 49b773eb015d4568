"""What the inputs and outputs of an exported program are: parameters, buffers, constants, user inputs."""

from __future__ import annotations

from bnaudit.reading.json_text import JsonObject, list_at, object_at, text_at

_STATE_SPECS = (
    ("parameter", "parameter_name"),
    ("buffer", "buffer_name"),
    ("tensor_constant", "tensor_constant_name"),
)
_OLD_STATE_MAPS = ("inputs_to_parameters", "inputs_to_buffers", "inputs_to_lifted_tensor_constants")


class Signature:
    """`state` maps graph inputs to fully qualified names (`layer1.0.bn1.weight`).

    torch 2.2 and later list `input_specs` and `output_specs`; torch 2.1 has one map per kind.
    """

    __slots__ = ("buffers_to_mutate", "state", "user_inputs")

    def __init__(self, signature: JsonObject) -> None:
        self.state: dict[str, str] = {}
        self.user_inputs: list[str] = []
        for spec in list_at(signature, "input_specs"):
            self._add_input(spec)
        for key in _OLD_STATE_MAPS:
            old = object_at(signature, key)
            self.state.update({name: text_at(old, name) for name in old if text_at(old, name)})
        self.user_inputs += [name for name in list_at(signature, "user_inputs") if isinstance(name, str)]
        self.buffers_to_mutate = _mutated(signature)

    def _add_input(self, spec: object) -> None:
        for kind, key in _STATE_SPECS:
            entry = object_at(spec, kind)
            argument, name = text_at(object_at(entry, "arg"), "name"), text_at(entry, key)
            if argument and name:
                self.state[argument] = name
                return
        user = object_at(object_at(spec, "user_input"), "arg")
        name = text_at(object_at(user, "as_tensor"), "name")
        if name:
            self.user_inputs.append(name)


def _mutated(signature: JsonObject) -> tuple[str, ...]:
    specs = [object_at(spec, "buffer_mutation") for spec in list_at(signature, "output_specs")]
    names = [text_at(spec, "buffer_name") for spec in specs]
    old = object_at(signature, "buffers_to_mutate")
    return tuple(name for name in [*names, *(text_at(old, key) for key in old)] if name)
