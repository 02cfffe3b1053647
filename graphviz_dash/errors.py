"""The errors a user can meet. Each says what was found, where, what was expected, what to do."""


class GraphvizDashError(Exception):
    """Base of every error that is told to the user as one line, never as a traceback.

    ``exit_code`` is what the command line returns for it.
    """

    exit_code = 1


class InputError(GraphvizDashError):
    """A file, folder or value given to us is not what it should be (exit code 2).

    Args:
        where: the path or argument that is at fault.
        found: what is there.
        expected: what should be there.
        advice: what the user can do about it; left out when there is nothing to do.
        topic: topic of ``graphviz-dash docs`` that explains what is expected; added to the advice.
    """

    exit_code = 2

    def __init__(
        self, where: object, found: str, expected: str, advice: str = "", topic: str = ""
    ) -> None:
        if topic:
            advice = f"{advice} See graphviz-dash docs {topic}.".lstrip()
        self.where = str(where)
        self.found = _shortened(found)
        self.expected = expected
        self.advice = advice
        text = f"{self.where}: {self.found}; expected {expected}"
        super().__init__(printable(f"{text}. {advice}" if advice else text))

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, str, str]]:
        """Made anew of its parts where a worker's error is unpickled, not of its text alone."""
        return type(self), (self.where, self.found, self.expected, self.advice)


_LONGEST_FOUND = 300
"""Characters of what was found that are told; a hostile file could make it megabytes."""


def _shortened(text: str) -> str:
    # Both ends, for the path of the field at fault stands last.
    kept = _LONGEST_FOUND // 2
    return text if len(text) <= _LONGEST_FOUND else f"{text[:kept]}…{text[-kept:]}"


class MissingRequirementError(GraphvizDashError):
    """Something the command needs is not on this machine (torch, CUDA, a free port)."""


class WorkerError(GraphvizDashError):
    """A process of ours ended before its work was done, by whatever ended it (exit code 1)."""


def printable(text: str) -> str:
    """``text`` on one line without control characters, so that no name can drive a terminal.

    Control characters (C0, DEL, C1) and the bidirectional overrides become their ``\\xNN`` or
    ``\\uNNNN`` escapes; everything else is left as it is.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
