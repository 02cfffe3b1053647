"""What a page shows is said by its address alone: every choice is a query parameter.

Widgets are set from the address before they are drawn, and write to it when they change, all at
once. So each change is one entry of the browser's history, and links, reloads and Back need no care
of their own.

Browser and script speak at the same time: what one of them says may reach the other when the
visitor has already gone elsewhere. :func:`arrive`, :func:`widget_of` and :func:`while_here` see to
it that the address he went to stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeAlias

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from graphviz_dash.ui.page.markup import plain

P = ParamSpec("P")

Parameters: TypeAlias = dict[str, list[str]]

EXPERIMENT: Final = "experiment"
_VISITED: Final = "addresses"
"""Of each page of this session: the parameters that it was last seen with."""
_TOLD: Final = "told-address"
"""The parameters that the browser was last told."""
_PAGE: Final = "page"
"""The page of this session's last run, as Streamlit names it."""
_MOST_SEGMENTS: Final = 6
_MOST_LISTED: Final = 200


def parameters() -> Parameters:
    """All parameters of the address."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def value(name: str) -> str | None:
    """The last value of a parameter; None where the address has none."""
    return st.query_params.get(name)


def change(values: Mapping[str, str | Sequence[str] | None]) -> None:
    """Sets parameters, or removes those that are None; one entry in the browser's history."""
    before = parameters()
    after = dict(before)
    for name, new in values.items():
        if new is None:
            after.pop(name, None)
        else:
            after[name] = [new] if isinstance(new, str) else list(new)
    if after != before:
        _tell(after)


def arrive() -> None:
    """Begins a run of a page. Where the browser was last told another address it is told this
    one: a link or Back led here, and what an earlier run still said of its own address may have
    reached the browser since."""
    context = get_script_run_ctx()
    st.session_state[_PAGE] = context.page_script_hash if context is not None else None
    here = parameters()
    if st.session_state.get(_TOLD) != here:
        _tell(here)


def _tell(address: Parameters) -> None:
    st.session_state[_TOLD] = address
    st.query_params.from_dict(address)


def while_here(act: Callable[P, None]) -> Callable[P, None]:
    """``act``, called by what this run of a page draws, for as long as the visitor is at this page
    and its experiment. A drawing or a table stays in the browser until it has heard of the next
    page: what is said in it until then is of no use there, and must not get into its address."""
    page, experiment_here = st.session_state.get(_PAGE), value(EXPERIMENT)

    def act_here(*args: P.args, **kwargs: P.kwargs) -> None:
        if _asked_page() == page and value(EXPERIMENT) == experiment_here:
            act(*args, **kwargs)

    return act_here


def _asked_page() -> str | None:
    """The page that is about to run, before it does. The request for it may be the one that also
    says what was picked on the page before; one that names no page means the same again."""
    context = get_script_run_ctx()
    asked = None if context is None else context.pages_manager.intended_page_script_hash
    return asked or st.session_state.get(_PAGE)


def remember(page: str) -> None:
    """Keeps the address of ``page``, so that links to it lead back to what was seen there."""
    visited: dict[str, Parameters] = st.session_state.setdefault(_VISITED, {})
    visited[page] = parameters()


def carry(page: str, values: Mapping[str, str | None]) -> None:
    """Has ``page`` show, when it is next gone to, what was chosen on this one: parameters of its
    address, None to leave one out."""
    visited: dict[str, Parameters] = st.session_state.setdefault(_VISITED, {})
    name = value(EXPERIMENT)
    if name is None:
        return
    kept = visited.get(page, {})
    carried = dict(kept) if kept.get(EXPERIMENT) == [name] else {EXPERIMENT: [name]}
    for parameter, new in values.items():
        carried.pop(parameter, None)
        if new is not None:
            carried[parameter] = [new]
    visited[page] = carried


def experiment() -> str | None:
    """The experiment that the address names, else the one that this session saw last."""
    named = value(EXPERIMENT)
    if named is not None:
        st.session_state["last-experiment"] = named
    seen: str | None = st.session_state.get("last-experiment")
    return seen


def leading_to(page: str) -> Parameters:
    """Parameters for a link to ``page``: as it was left, if that was with the same experiment."""
    name = experiment()
    visited: dict[str, Parameters] = st.session_state.get(_VISITED, {})
    before = visited.get(page, {})
    if name is None:
        return {}
    return before if before.get(EXPERIMENT) == [name] else {EXPERIMENT: [name]}


def chosen(name: str, options: Sequence[str], *, default: str | None = None) -> str:
    """Which of ``options`` (one or more) the address says; ``default``, the first unless given,
    where it says none of them."""
    asked = value(name)
    if asked is not None and asked in options:
        return asked
    return options[0] if default is None or default not in options else default


def widget_of(name: str, shown: object, pick: Callable[[Any], None]) -> dict[str, Any]:
    """Arguments of the widget for the parameter ``name``, which is set to ``shown``, what the
    address says; ``pick`` is called with what the visitor picks there.

    A browser that has not seen a run yet sends with whatever it sends what its widgets said before.
    That is no choice: where the address has another value than the widget the next widget has a new
    key, and what a widget says that was replaced, or whose page was left, is not listened to.
    """
    key = _key(name)
    if st.session_state.get(key, shown) != shown:
        st.session_state[_count(name)] += 1
        key = _key(name)
    st.session_state[key] = shown
    page = st.session_state.get(_PAGE)
    return {"key": key, "on_change": _changed, "args": (name, key, page, pick)}


def _key(name: str) -> str:
    """Of the widget for a parameter that was drawn last."""
    return f"choice-{name}-{st.session_state.setdefault(_count(name), 0)}"


def _count(name: str) -> str:
    return f"widgets-{name}"


def _changed(name: str, key: str, page: str | None, pick: Callable[[Any], None]) -> None:
    if key == _key(name) and page == _asked_page():
        pick(st.session_state.get(key))


def choose(
    name: str,
    label: str,
    options: Sequence[str],
    *,
    default: str | None = None,
    clears: Sequence[str] = (),
    **looks: Any,
) -> str:
    """A picker of one of ``options`` (one or more): segments where few, else a list.

    ``default`` (the first option unless given) is what an address without the parameter, or with an
    unknown value, means. A change removes the parameters ``clears``, which depend on it.
    """
    standard = options[0] if default is None or default not in options else default
    shown = chosen(name, options, default=standard)

    def pick(new: Any) -> None:
        kept = new if isinstance(new, str) and new != standard else None
        change({name: kept} | dict.fromkeys(clears))

    given = widget_of(name, shown, pick)
    if looks or len(options) > _MOST_SEGMENTS:
        st.selectbox(label, options, **given, **looks)
    else:
        st.segmented_control(label, options, required=True, format_func=plain, **given)
    return shown


def choose_number(name: str, label: str, count: int, otherwise: str, help_text: str) -> str:
    """A picker of a number below ``count``, or of ``otherwise``, which an address without the
    parameter means: a list, or where that would be long a field. Returns what is picked."""
    if count <= _MOST_LISTED:
        numbers = [otherwise, *(str(number) for number in range(count))]
        return choose(name, label, numbers, width=120, help=help_text)
    asked = value(name) or ""
    picked = int(asked) if asked.isascii() and asked.isdigit() and int(asked) < count else None

    def pick(new: Any) -> None:
        change({name: None if new is None else str(int(new))})

    st.number_input(
        label,
        min_value=0,
        max_value=count - 1,
        step=1,
        value=None,
        placeholder=otherwise,
        help=help_text,
        width=150,
        **widget_of(name, picked, pick),
    )
    return otherwise if picked is None else str(picked)


def choose_several(
    name: str, label: str, options: Sequence[str], default: Sequence[str]
) -> list[str]:
    """A picker of some of ``options``, in their order; ``default`` where the address names none."""
    asked = parameters().get(name, [])
    chosen = [option for option in options if option in asked] or list(default)

    def pick(new: Any) -> None:
        change({name: None if not new or set(new) == set(default) else list(new)})

    st.pills(
        label,
        options,
        selection_mode="multi",
        format_func=plain,
        **widget_of(name, chosen, pick),
    )
    return chosen


def search(name: str, label: str, placeholder: str) -> str:
    """A field to search with; what is typed, in lower case."""

    def pick(new: Any) -> None:
        change({name: new or None})

    typed: str = st.text_input(
        label,
        placeholder=placeholder,
        icon=":material/search:",
        label_visibility="collapsed",
        width=340,
        max_chars=200,
        **widget_of(name, value(name) or "", pick),
    )
    return typed.strip().lower()
