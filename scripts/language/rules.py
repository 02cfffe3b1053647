"""Rules of the language check: phrases with their replacements, verbs, and words that name nothing."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["FUNCTION_WORDS", "OPENINGS", "PARTICIPLES", "PHRASES", "VERBS", "Phrase"]


class Phrase(NamedTuple):
    """A phrase that plain technical English does not need."""

    pattern: re.Pattern[str]
    """Matches the phrase in a sentence."""
    suggestion: str
    """Replacement, or what to do."""


def _phrase(pattern: str, suggestion: str) -> Phrase:
    return Phrase(re.compile(pattern, re.IGNORECASE), suggestion)


_BE: Final = r"\b(?:is|are|was|were|be|been)"

PHRASES: Final = (
    _phrase(rf"{_BE} (?:told|said|noted|heard|taken down)\b", "is shown, is reported, is recorded"),
    _phrase(r"\bforetold?\b|\bforetells?\b", "predicted, predicts"),
    _phrase(r"\btells? (?:of|which|what|how|that|whether|apart|it)\b", "shows, reports, names"),
    _phrase(r"\bsays? (?:so|of|which|what|how much)\b", "shows, states"),
    _phrase(r"\banew\b|\bonce more\b", "again"),
    _phrase(r"\bmend(?:s|ed|ing)?\b", "fix, fixed"),
    _phrase(r"\bsurely\b|\bfor sure\b|\bhow sure\b|\bthe surer\b", "significantly; confidence"),
    _phrase(r"\bbeside\b", "next to, compared with, in addition to"),
    _phrase(r"\bhardly\b", "barely, marginal, rarely"),
    _phrase(r"\bpromis(?:e|es|ed)\b", "prediction, estimate"),
    _phrase(
        r"\bwhat (?:a|an|the|it|its|they|each|no|such|is|was|came|comes|follows|must|could|cannot"
        r"|can|has|have|takes?|costs?|graphs?|replays?|runs?)\b",
        "a noun: the cost of a graph, not what a graph takes",
    ),
    _phrase(r"\bwhoever\b|\bof (?:one|those|these|them) (?:whose|that|which)\b", "a plain subject"),
    _phrase(r"\b(?:of|by) so many\b", "this many"),
    _phrase(r"^(?:Of|Whose|What) [a-z]+", "start with the subject"),
    _phrase(r"\bis so\b|\bthe like\b", "name the fact; similar"),
    _phrase(r"\bof (?:its|their) own\b|\bfor itself\b|\bby itself\b", "separate, its own, alone"),
    _phrase(r"\btaken for\b|\bheld (?:against|beside|back)\b", "treated as; compared with"),
    _phrase(r"\bc(?:ome|omes|ame) (?:to|of)\b", "totals, is; results from"),
    _phrase(r"\bgiven back\b", "returned, freed"),
    _phrase(r"\bin turns\b", "interleaved"),
    _phrase(r"\bleft (?:out|alone|behind|over)\b", "omitted, excluded, unchanged"),
    _phrase(r"\bstands? (?:beside|above|below|behind|for|there|by)\b", "is above; represents"),
    _phrase(r"\blays?\b|\blies\b", "is, is at"),
    _phrase(r"\bat once\b", "immediately, at the same time"),
    _phrase(r"\bNone where\b|\bwhere none\b", "None if"),
    _phrase(r"\bfor (?:it|they|none|nothing) (?:is|are|was|were|has|had)\b", "because"),
    _phrase(r"\balike\b", "equal, similar"),
    _phrase(r"\bin the same breath\b|\bwithout a word\b", "at the same time; silently"),
)
"""Phrases that idiomatic technical English hardly uses, each with its replacement."""

OPENINGS: Final = frozenset({"What", "Whether", "How", "Where", "Which", "Whose"})
"""Words that no docstring starts with: an imperative verb or a noun phrase does."""

VERBS: Final = frozenset(
    """
    abort accept acquire activate adapt add adjust adopt advance aggregate align allocate allow announce annotate
    append apply arrange assemble assert assign attach attribute authorize await balance begin bench benchmark bind
    bisect block bound bring bucket build cache calculate calibrate call can cancel cap capture carry cast catch change
    check choose clamp classify clean clear click clip clone close coalesce collapse collect color combine commit
    compare compile complete compose compress compute condense configure confirm connect consume contain convert
    copy correct count cover create crop cross cut cycle decide declare decode decompress decorate deduplicate define
    delete deliver demangle deny derive describe deserialize detach detect determine diagnose diff differ digest dim
    disable discard disconnect dismiss dispatch display divide do download drain draw drive drop dump echo edit embed
    emit empty enable encode encrypt end enforce enlarge ensure enter enumerate equal escape establish estimate
    evaluate examine exclude execute exist exit expand expect expire explain explore export expose extend extract
    fail fake fall feed fetch fill filter finalize find finish fit fix flag flatten flush focus fold follow force fork
    format forward frame free freeze gather generate get give grant group grow guard guess halt handle has hash have
    hide highlight hold identify ignore import include increase increment index infer inform inherit initialize inject
    inline insert inspect install instantiate instrument integrate intercept interpolate interpret intersect
    invalidate invert invoke is isolate issue iter iterate join jump justify keep kill label land last launch lay layer
    lead leave lend let level limit link list listen load locate lock log look lookup lower make manage map mark mask
    match materialize measure merge migrate minimize mirror miss mix model modify monitor mount move multiply mute name
    narrow navigate need nest normalize note notify number observe obtain occupy offer omit on open optimize order
    organize outline output overlap override own pack pad page paint pair parse partition pass paste patch pause peek
    perform permit pick pin place plan play plot point poll pop populate position post postpone predict prefer prefix
    preload prepare preserve press prevent print probe process produce profile project propagate propose protect prove
    provide prune publish pull purge push put quantize query quote raise rank read rebuild recalculate receive
    recognize recompute reconnect record recover redirect redo redraw reduce refer refine reformat refresh refuse
    register reject relabel relate release reload remember remove rename render reorder repair repeat replace replay
    report request require reread rerun rescale reserve reset resize resolve respond restart restore restrict resume
    retain retrieve retry return reuse reveal reverse revert rewrite roll rotate round route run sample sanitize save
    scale scan schedule score scroll search see seed seek select send separate serialize serve set settle setup shade
    shape share shift shorten should show shrink shut sign signal simplify simulate sink size skip slice smooth solve
    sort spawn specify split spread stack stage stamp start stat state stay step stop store stream strike strip style
    submit subscribe subtract suggest sum summarise summarize supply support suppress suspend swap switch sync
    synchronize tabulate tag take target teardown terminate test tick tile time toggle track trace train transfer
    transform translate transpose traverse trigger trim truncate try tune turn undo unescape unfold unify uninstall
    union unite unlink unload unlock unmap unpack unregister unsubscribe unwrap unzip update upgrade upload use
    validate vary verify view visit wait walk want warm warn watch weigh widen wire work wrap write yield zip zoom
    """.split()
)
"""First words of function names."""

FUNCTION_WORDS: Final = frozenset(
    """
    about above again against ahead alike all alone along also among any anywhere apart around as at away back before
    behind below beside besides between beyond both by each early earlier earliest else elsewhere even ever every few
    fewest first for from further furthest here how in inside into last late later latest least left less like likewise
    long longest loose many more most mostly much near nearest next no none nothing now of off on once one only onward
    other others ours out outside over own quite right same several short shorter shortest since so soon soonest some
    such then there this those though thus to together too under until unlike up upon upright usual very what whatever
    when where which while who whole whose why widest with within without yet it its them they is are was were be been
    has have had do does did may might not
    """.split()
)
"""Words that name nothing."""

PARTICIPLES: Final = frozenset(
    """
    begun born bought brought built chosen done drawn driven fallen felt found forgotten forgiven given gone grown heard
    held hidden kept known laid led let lent lost made meant met paid said seen sent shown shut spent stood struck sworn
    taken taught thought thrown told understood woken won written foretold lived asked
    """.split()
)
"""Irregular participles; regular ones end in -ed."""
