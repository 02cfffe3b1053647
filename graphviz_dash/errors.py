"""Errors shown to users. Each reports location, problem, expected input and a remedy."""


class GraphvizDashError(Exception):
    """Base of errors printed as one line without a traceback.

    ``exit_code`` is the exit code of the command line.
    """

    exit_code = 1


class InputError(GraphvizDashError):
    """An invalid file, folder or value from the user (exit code 2).

    Args:
        where: path or argument at fault.
        found: actual content.
        expected: expected content.
        advice: remedy; empty if there is none.
        topic: topic of ``graphviz-dash docs`` on the expected content; added to ``advice``.
    """

    exit_code = 2

    def __init__(
        self, where: object, found: str, expected: str, advice: str = "", topic: str = ""
    ) -> None:
        if topic:
            advice = f"{advice} See graphviz-dash docs {topic}.".lstrip()
        self.where = str(where)
        self.found = _shorten(found)
        self.expected = expected
        self.advice = advice
        text = f"{self.where}: {self.found}; expected {expected}"
        super().__init__(escape_control_characters(f"{text}. {advice}" if advice else text))

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, str, str]]:
        """Rebuild from all fields when a worker's error is unpickled, not from its text alone."""
        return type(self), (self.where, self.found, self.expected, self.advice)


_MAX_FOUND_CHARS = 300
"""Maximum number of characters shown of invalid content, which may be megabytes."""


def _shorten(text: str) -> str:
    # Keep both ends, because the path of the invalid field is last.
    side = _MAX_FOUND_CHARS // 2
    return text if len(text) <= _MAX_FOUND_CHARS else f"{text[:side]}…{text[-side:]}"


class MissingRequirementError(GraphvizDashError):
    """A requirement of the command is missing on this machine (torch, CUDA, a free port)."""


class WorkerError(GraphvizDashError):
    """A worker process ended before its work was done (exit code 1)."""


def escape_control_characters(text: str) -> str:
    r"""Format ``text`` on one line without control characters, so that no name can control a
    terminal.

    Control characters (C0, DEL, C1) and bidirectional overrides become ``\\xNN`` or ``\\uNNNN``
    escapes.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
