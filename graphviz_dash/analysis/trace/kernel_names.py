"""Short kernel names for display, from demangled names.

They are not unique, so always show the full name too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# Longer names are nested templates, with the relevant part at the start.
_READ_CHARS: Final = 4000

# "void ns::name<...>(...)": return type, namespaces, name.
_HEAD: Final = re.compile(r"(?:[\w:]+ )?(?:\w+::)*(\w+)(?=[<(]|$)")

# cuBLAS's gemv: "std::enable_if<!(false), void>::type internal::gemvx::kernel<...>(...)".
_CONDITION: Final = re.compile(r"std::enable_if<[^;]{0,80}?>::type (?=[\w:]+<)")
_GENERIC_NAME: Final = re.compile(r"(?:\w+::)*(\w+::kernel)(?=<)")
"""A name that is meaningless without its namespace."""

# Kernels that run any functor, which describes their work.
_WRAPPERS: Final = {
    "elementwise_kernel": "elementwise",
    "elementwise_kernel_manual_unroll": "elementwise",
    "vectorized_elementwise_kernel": "elementwise",
    "unrolled_elementwise_kernel": "elementwise",
    "unrolled_elementwise_kernel_for_multi_outputs": "elementwise",
    "vectorized_templated_elementwise_kernel": "elementwise",
    "legacy_elementwise_kernel": "elementwise",
    "index_elementwise_kernel": "elementwise",
    "reduce_kernel": "reduce",
    "multi_tensor_apply_kernel": "multi_tensor",
}

_WHAT: Final = re.compile(
    r"std::(?P<op>multiplies|divides|plus|minus)\b"
    r"|\b(?P<name>\w+?)(?:_kernel_cuda|_kernel_impl|_kernel|CUDAKernelImpl|KernelImpl)\b"
    r"|\bCUDAFunctor(?:OnSelf)?_(?P<self>\w+)"
    r"|\b(?P<functor>\w+?)_?(?:Functor|functor|Ops|MathFunctor)\b"
    r"|\b(?P<launch>launch_\w+)"
)

# Functors that only wrap another one, and names too general to be useful.
_CARRIERS: Final = frozenset(
    {
        *("Unary", "AUnary", "BUnary", "Binary", "UnaryOp", "BinaryOpScalar", "BinaryOpList"),
        *("BinaryOpScalarTensor", "PointwiseOpScalar", "PointwiseOpList", "TernaryOpScalar"),
        *("TernaryOpList", "gpu", "elementwise", "vectorized_elementwise"),
        *("unrolled_elementwise", "reduce", "multi_tensor_apply"),
    }
)

_CUTLASS: Final = re.compile(
    r"cutlass(?:_cudnn\w*)?::(?:device_kernel|Kernel2?)<(?:[\w:]*\benable_\w+<)?(?:\w+::)*?(\w+)(?:::\w*Kernel)?\b(?!::)"
)
"""CUTLASS kernels: the name, or its enclosing scope if that is GemmKernel or similar."""


@lru_cache(maxsize=65536)
def shorten_name(demangled: str) -> str:
    """Return a kernel's name without return type, namespaces, template arguments and parameters.

    A kernel that runs any functor becomes its kind and functor: "elementwise add". Names that
    are not C++ (Triton, cuBLAS, a copy) are unchanged.
    """
    text = demangled[:_READ_CHARS].replace("(anonymous namespace)::", "")
    cutlass = _CUTLASS.search(text)
    if cutlass:
        return cutlass[1]
    if condition := _CONDITION.match(text):
        text = text[condition.end() :]
    if general := _GENERIC_NAME.match(text.removeprefix("void ")):
        return general[1]
    head = _HEAD.match(text)
    if not head:
        return demangled
    kind = _WRAPPERS.get(head[1])
    functor = _find_functor(text[head.end() :]) if kind else None
    if kind is None:
        return head[1]
    return f"{kind} {functor}" if functor else head[1]


def _find_functor(arguments: str) -> str | None:
    for match in _WHAT.finditer(arguments):
        functor = next(text for text in match.groups() if text)
        if functor not in _CARRIERS:
            return functor
    return None
