"""Store the state of a page in its address: every choice is a query parameter.

Widgets are set from the address, and write all their changes to it together. So each change is one
history entry, and links, reloads and Back work.

Messages may arrive after the user has moved on. :func:`sync_address`,
:func:`build_widget_arguments` and :func:`only_on_this_page` keep the address that the user moved
to.

Streamlit does not document the context. If a version lacks a name, both pages are None, and late
events of the previous page are not ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, ParamSpec, TypeAlias

import streamlit as st

from graphviz_dash.ui.page.markup import escape_markdown

P = ParamSpec("P")

Parameters: TypeAlias = dict[str, list[str]]

EXPERIMENT: Final = "experiment"
_ADDRESSES: Final = "addresses"
"""Session key: parameters of each page when it was last seen."""
_SENT_ADDRESS: Final = "told-address"
"""Session key: parameters last sent to the browser."""
_PAGE: Final = "page"
"""Session key: page of the last run, as Streamlit names it."""
_MAX_SEGMENTS: Final = 6
_MAX_LISTED: Final = 200


def get_parameters() -> Parameters:
    """Return all parameters of the address."""
    return {name: st.query_params.get_all(name) for name in st.query_params}


def get_value(name: str) -> str | None:
    """Return the last value of a parameter; None if absent."""
    return st.query_params.get(name)


def set_parameters(values: Mapping[str, str | Sequence[str] | None]) -> None:
    """Set parameters, or remove those that are None, as one history entry."""
    before = get_parameters()
    after = dict(before)
    for name, new in values.items():
        if new is None:
            after.pop(name, None)
        else:
            after[name] = [new] if isinstance(new, str) else list(new)
    if after != before:
        _send_address(after)


def sync_address() -> None:
    """Start a run of a page.

    Resends the address if the browser last received that of an earlier run, as after Back.
    """
    st.session_state[_PAGE] = get_page_hash()
    address = get_parameters()
    if st.session_state.get(_SENT_ADDRESS) != address:
        _send_address(address)


def _send_address(address: Parameters) -> None:
    st.session_state[_SENT_ADDRESS] = address
    st.query_params.from_dict(address)


def only_on_this_page(act: Callable[P, None]) -> Callable[P, None]:
    """Wrap a callback so that it runs only while the user is on this page and experiment.

    A drawing stays until the next page arrives. Its events must not change the address of the next
    page.
    """
    page, experiment_here = st.session_state.get(_PAGE), get_value(EXPERIMENT)

    def act_if_current(*args: P.args, **kwargs: P.kwargs) -> None:
        if _get_requested_page() == page and get_value(EXPERIMENT) == experiment_here:
            act(*args, **kwargs)

    return act_if_current


def _get_requested_page() -> str | None:
    """Return the page that is about to run.

    A request without a page means the same page.
    """
    return get_requested_page_hash() or st.session_state.get(_PAGE)


def remember_address(page: str) -> None:
    """Store the address of ``page`` for links back to it."""
    visited: dict[str, Parameters] = st.session_state.setdefault(_ADDRESSES, {})
    visited[page] = get_parameters()


def carry_parameters(page: str, values: Mapping[str, str | None]) -> None:
    """Set parameters of ``page`` for the next visit; None removes one."""
    visited: dict[str, Parameters] = st.session_state.setdefault(_ADDRESSES, {})
    name = get_value(EXPERIMENT)
    if name is None:
        return
    previous = visited.get(page, {})
    carried = dict(previous) if previous.get(EXPERIMENT) == [name] else {EXPERIMENT: [name]}
    for parameter, new in values.items():
        carried.pop(parameter, None)
        if new is not None:
            carried[parameter] = [new]
    visited[page] = carried


def get_experiment() -> str | None:
    """Return the experiment in the address, else the last one of this session."""
    requested = get_value(EXPERIMENT)
    if requested is not None:
        st.session_state["last-experiment"] = requested
    last: str | None = st.session_state.get("last-experiment")
    return last


def get_link_parameters(page: str) -> Parameters:
    """Return the last parameters of ``page``, if for the same experiment."""
    name = get_experiment()
    visited: dict[str, Parameters] = st.session_state.get(_ADDRESSES, {})
    previous = visited.get(page, {})
    if name is None:
        return {}
    return previous if previous.get(EXPERIMENT) == [name] else {EXPERIMENT: [name]}


def get_option(name: str, options: Sequence[str], *, default: str | None = None) -> str:
    """Return the option in the address, else ``default``, else the first of ``options``."""
    requested = get_value(name)
    if requested is not None and requested in options:
        return requested
    return options[0] if default is None or default not in options else default


def build_widget_arguments(name: str, value: object, pick: Callable[[Any], None]) -> dict[str, Any]:
    """Return arguments of the widget for the parameter ``name``, set to ``value`` from the address.

    ``pick`` is called with the user's choice. A browser that has not seen a run yet sends stale
    widget values with its messages. If the address has another value, the next widget gets a new
    key; messages of replaced widgets and of other pages are ignored.
    """
    key = _get_widget_key(name)
    if st.session_state.get(key, value) != value:
        st.session_state[_get_counter_key(name)] += 1
        key = _get_widget_key(name)
    st.session_state[key] = value
    page = st.session_state.get(_PAGE)
    return {"key": key, "on_change": _handle_change, "args": (name, key, page, pick)}


def _get_widget_key(name: str) -> str:
    return f"choice-{name}-{st.session_state.setdefault(_get_counter_key(name), 0)}"


def _get_counter_key(name: str) -> str:
    return f"widgets-{name}"


def _handle_change(name: str, key: str, page: str | None, pick: Callable[[Any], None]) -> None:
    if key == _get_widget_key(name) and page == _get_requested_page():
        pick(st.session_state.get(key))


def compute_list_width(titles: Iterable[str]) -> int:
    """Compute the width of a list in pixels that shows the longest of ``titles`` without a cut."""
    length = max(map(len, titles), default=0)
    return min(max(_LIST_PX, _FRAME_PX + round(length * _CHARACTER_PX)), _MAX_LIST_PX)


_LIST_PX: Final = 250
_MAX_LIST_PX: Final = 640
_FRAME_PX: Final = 36
"""Padding and button of a list."""
_CHARACTER_PX: Final = 6.8
"""Mean width of a character; 6.2 to 6.5 in titles of graphs."""


def select_option(
    name: str,
    label: str,
    options: Sequence[str],
    *,
    default: str | None = None,
    clears: Sequence[str] = (),
    **widget_options: Any,
) -> str:
    """Show a picker for one of ``options``: segments if few, otherwise a list.

    The default is ``default``, or the first option. A change removes the parameters ``clears``.
    """
    standard = options[0] if default is None or default not in options else default
    option = get_option(name, options, default=standard)

    def pick(new: Any) -> None:
        parameter = new if isinstance(new, str) and new != standard else None
        set_parameters({name: parameter} | dict.fromkeys(clears))

    arguments = build_widget_arguments(name, option, pick)
    if widget_options or len(options) > _MAX_SEGMENTS:
        st.selectbox(label, options, **arguments, **widget_options)
    else:
        st.segmented_control(
            label, options, required=True, format_func=escape_markdown, **arguments
        )
    return option


def select_number(name: str, label: str, count: int, default: str, help_text: str) -> str:
    """Show a picker for a number below ``count``, or ``default``.

    Uses a list, or a field if the list would be long.
    """
    if count <= _MAX_LISTED:
        numbers = [default, *(str(number) for number in range(count))]
        return select_option(name, label, numbers, width=120, help=help_text)
    parameter = get_value(name) or ""
    picked = (
        int(parameter)
        if parameter.isascii() and parameter.isdigit() and int(parameter) < count
        else None
    )

    def pick(new: Any) -> None:
        set_parameters({name: None if new is None else str(int(new))})

    st.number_input(
        label,
        min_value=0,
        max_value=count - 1,
        step=1,
        value=None,
        placeholder=default,
        help=help_text,
        width=150,
        **build_widget_arguments(name, picked, pick),
    )
    return default if picked is None else str(picked)


def select_several(
    name: str, label: str, options: Sequence[str], default: Sequence[str]
) -> list[str]:
    """Show a picker for some of ``options``; ``default`` if the address has none."""
    requested = get_parameters().get(name, [])
    selected = [option for option in options if option in requested] or list(default)

    def pick(new: Any) -> None:
        set_parameters({name: None if not new or set(new) == set(default) else list(new)})

    st.pills(
        label,
        options,
        selection_mode="multi",
        format_func=escape_markdown,
        **build_widget_arguments(name, selected, pick),
    )
    return selected


def show_search_field(
    name: str, label: str, placeholder: str, *, clears: Sequence[str] = ()
) -> str:
    """Show a search field and return its text in lower case.

    A change removes the parameters ``clears``.
    """

    def pick(new: Any) -> None:
        set_parameters({name: new or None} | dict.fromkeys(clears))

    typed: str = st.text_input(
        label,
        placeholder=placeholder,
        icon=":material/search:",
        label_visibility="collapsed",
        width=340,
        max_chars=200,
        **build_widget_arguments(name, get_value(name) or "", pick),
    )
    return typed.strip().lower()


def get_page_hash() -> str | None:
    """Return the page of this run, as Streamlit names it; None if unknown."""
    return _get_text(_get_context(), "page_script_hash")


def get_requested_page_hash() -> str | None:
    """Return the page that the browser requested; None if unknown or the same as before."""
    return _get_text(getattr(_get_context(), "pages_manager", None), "intended_page_script_hash")


def _get_context() -> Any:
    try:
        from streamlit.runtime.scriptrunner import get_script_run_ctx
    except ImportError:
        return None
    return get_script_run_ctx()


def _get_text(holder: Any, name: str) -> str | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else None
