"""Entities of tagged words, in the tagging schemes IOB1, IOB2, IOBES, BILOU and BMES."""

from collections.abc import Iterator

from bertcli.errors import UserError

Entity = tuple[str, int, int]  # type, first word, last word
Word = tuple[str, str]  # prefix, type
OUTSIDE = ("O", "_")
PREFIXES = {"default": set("OBIES"), "IOB1": set("OBI"), "IOB2": set("OBI"), "IOBES": set("OBIES")}
ALIASES = {"L": "E", "U": "S", "M": "I"}  # BILOU and BMES
# How an entity begins and ends where the scheme is strict.
ENDS = {"IOB2": {"BB", "BI"}, "IOBES": {"BE", "SS"}}


def entities(tags: list[str], scheme: str = "default") -> Iterator[Entity]:
    """The entities of a sentence; a tag without a type (`B`) has type `_`. Raises UserError for a tag not in the scheme."""
    words = [OUTSIDE, *(_word(tag, scheme) for tag in tags), OUTSIDE]
    first = 1
    for after in range(2, len(words)):
        if words[after][0] in "IE" and words[after - 1][0] in "BI" and words[after][1] == words[after - 1][1]:
            continue
        if words[first] != OUTSIDE:
            start = _start(words, first, after, scheme)
            if start < after:
                yield words[start][1], start - 1, after - 2
        first = after


def _word(tag: str, scheme: str) -> Word:
    prefix, _, kind = tag.partition("-")
    prefix = ALIASES.get(prefix, prefix) if scheme == "default" else prefix
    if prefix not in PREFIXES[scheme]:
        known = ", ".join(f"{known}-TYPE" for known in sorted(PREFIXES[scheme] - {"O"}))
        raise UserError(f"`{tag}` is not a tag of an entity.", f"Tags are O, {known}.")
    return (prefix, kind or "_") if prefix != "O" else OUTSIDE


def _start(words: list[Word], first: int, after: int, scheme: str) -> int:
    """Where the entity in the run of words from `first` to before `after` starts; `after` if there is none."""
    prefix, kind = words[first]
    if scheme in ENDS:
        return first if prefix + words[after - 1][0] in ENDS[scheme] else after
    if scheme == "IOB1" and prefix == "B":  # only to part two entities of a type; seqeval passes over any other B
        if words[first - 1][0] == "O" or words[first - 1][1] != kind:
            return first + 1
        if after == first + 1 and words[after][0] == "B" and words[after][1] != kind:
            return after
    return first


def entity_outcomes(given: list[str], true: list[str]) -> Iterator[str]:
    """For each true entity, whether it is found or how it is missed; then each predicted one that overlaps no true one."""
    predicted, gold = list(entities(given)), list(entities(true))
    for entity in gold:
        yield _outcome_of(entity, [each for each in predicted if _overlap(each, entity)])
    for entity in predicted:
        if not any(_overlap(each, entity) for each in gold):
            yield "not an entity"


def _outcome_of(entity: Entity, near: list[Entity]) -> str:
    if entity in near or not near:
        return "right" if near else "missed"
    if any(each[1:] == entity[1:] for each in near):
        return "wrong type"
    return "wrong boundaries" if any(each[0] == entity[0] for each in near) else "wrong boundaries and type"


def _overlap(one: Entity, other: Entity) -> bool:
    return one[1] <= other[2] and other[1] <= one[2]
