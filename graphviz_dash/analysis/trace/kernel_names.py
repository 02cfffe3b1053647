"""Short names for kernels: what a reader calls them, from the demangled name of the trace.

The short name is for labels; it is not unique, and the full name is always shown beside it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

# Longer names are templates upon templates: what they are called stands at their beginning.
_READ_CHARS: Final = 4000

# "void ns::name<...>(...)": return type, namespaces, name.
_HEAD: Final = re.compile(r"(?:[\w:]+ )?(?:\w+::)*(\w+)(?=[<(]|$)")

# cuBLAS's gemv: "std::enable_if<!(false), void>::type internal::gemvx::kernel<...>(...)".
_CONDITION: Final = re.compile(r"std::enable_if<[^;]{0,80}?>::type (?=[\w:]+<)")
_GENERAL: Final = re.compile(r"(?:\w+::)*(\w+::kernel)(?=<)")
"""A name that tells nothing without what it is in."""

# Kernels that run any functor: the functor says what they do.
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

# Functors that only carry another one, and names too general to tell anything.
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
"""What CUTLASS runs: its name, or what that is in where it is called GemmKernel or the like."""


@lru_cache(maxsize=65536)
def short_name(demangled: str) -> str:
    """A kernel's name without return type, namespaces, template arguments and parameters; for a
    kernel that runs any functor, what kind it is and what the functor does: "elementwise add".

    A name that is no C++ name (Triton, cuBLAS, a copy) is given back as it is.
    """
    text = demangled[:_READ_CHARS].replace("(anonymous namespace)::", "")
    cutlass = _CUTLASS.search(text)
    if cutlass:
        return cutlass[1]
    if condition := _CONDITION.match(text):
        text = text[condition.end() :]
    if general := _GENERAL.match(text.removeprefix("void ")):
        return general[1]
    head = _HEAD.match(text)
    if not head:
        return demangled
    kind = _WRAPPERS.get(head[1])
    what = _what(text[head.end() :]) if kind else None
    if kind is None:
        return head[1]
    return f"{kind} {what}" if what else head[1]


def _what(arguments: str) -> str | None:
    for match in _WHAT.finditer(arguments):
        what = next(text for text in match.groups() if text)
        if what not in _CARRIERS:
            return what
    return None
