"""Whether every account may do what its process needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from app.core.checkup.facts import Access, Facts
from app.core.checkup.findings import Check, Finding, Level, Unasked, unknown
from app.core.checkup.mending import with_rights

_MOST_NAMED = 4


def of_rights(facts: Facts) -> Iterator[Finding]:
    """Judge the rights of whoever asks, and of the processes' accounts."""
    for about, found in (("you", facts.rights), ("accounts", facts.accounts)):
        if isinstance(found, Unasked):
            yield unknown(Check.RIGHTS, about, found)
            continue
        for (process, account), rights in groupby(found, lambda one: (one.process, one.account)):
            yield _account(process, account, list(rights), facts)


def _account(process: str, account: str, found: Sequence[Access], facts: Facts) -> Finding:
    missing = [one for one in found if not one.is_allowed]
    if not missing:
        told = f"it may do all {len(found)} things that are needed"
        return Finding(Check.RIGHTS, Level.FINE, account, told)
    named = ", ".join(f"{one.verb} {one.what}" for one in missing[:_MOST_NAMED])
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    if not process:
        told = f"whoever asks may not {named}{more}, so not everything is looked at"
        fix = f"kubectl auth can-i {missing[0].verb} {missing[0].what.partition(' ')[0]}"
        return Finding(Check.RIGHTS, Level.WARNING, account, told, fix)
    told = f"the {process} may not {named}{more}; needed to {missing[0].why}"
    documents = dict.fromkeys(one.document for one in missing)
    fix = with_rights(process, account.split(":")[2], documents, facts)
    return Finding(Check.RIGHTS, Level.SERIOUS, account, told, fix)
