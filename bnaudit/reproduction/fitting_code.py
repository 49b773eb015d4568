"""The part of a script that brings inputs to the model's dtype and device, where these are not the usual ones."""

from __future__ import annotations

FITTED = '''def fitted(value, model):
    """Inputs in the model's own dtype, and on its device."""
    if isinstance(value, dict):
        return {key: fitted(item, model) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(fitted(item, model) for item in value)
    if not torch.is_tensor(value):
        return value
    like = next(each for each in model.parameters() if each.is_floating_point())
    return value.to(like) if value.is_floating_point() else value.to(like.device)


'''


def needs_fitting(compute_dtype: str, device: str) -> bool:
    """Whether inputs as they are in inputs.npz are not what the model takes."""
    return compute_dtype != "float32" or device != "cpu"


def called(fits: bool) -> tuple[str, str]:
    """(a line before the call, what makes an array of a tensor)."""
    if not fits:
        return "", ".double().numpy()"
    return "    args, kwargs = fitted(args, model), fitted(kwargs, model)\n", ".double().cpu().numpy()"
