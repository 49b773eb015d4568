"""The pytest plugin: a fixture `bnaudit` whose assertions fail with the report as a person reads it.

Importing it imports nothing else of bnaudit: pytest loads the plugins of every installed package, needed or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bnaudit.deployable import NotDeployableError
    from bnaudit.results import Report


class Auditor:
    """What the fixture gives: the module's public names, with an assertion that fails without a traceback.

    It stands for the module, so that a test that also says `import bnaudit` may use either.
    """

    def assert_deployable(self, model: object = None, inputs: object = None, /, **options: Any) -> Report:
        """`bnaudit.assert_deployable`; a failure is the report alone."""
        __tracebackhide__ = True
        from bnaudit.deployable import NotDeployableError, assert_deployable

        try:
            return assert_deployable(model, inputs, **options)
        except NotDeployableError as error:
            failure = _without_traceback(error)
        raise failure

    def __getattr__(self, name: str) -> Any:
        import bnaudit

        return getattr(bnaudit, name)


def _without_traceback(error: NotDeployableError) -> BaseException:
    """What pytest prints as it does `pytest.fail(text, pytrace=False)`, and still is an AssertionError.

    The text has no styles in a terminal with colour either: it goes to files of results too.
    """
    members = {"__module__": "builtins", "__init__": pytest.fail.Exception.__init__, "report": error.report}
    kind: Any = type("NotDeployable", (type(error), pytest.fail.Exception), members)
    failure: BaseException = kind(str(error), pytrace=False)
    return failure


@pytest.fixture(scope="session", name="bnaudit")
def _bnaudit() -> Auditor:
    """Audits models: `bnaudit.assert_deployable(model, inputs, require=("buffers", "eval-mode"))`."""
    return Auditor()
