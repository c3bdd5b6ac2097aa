"""Which VPAs select which pod labels, known without comparing all with all each time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from app.model.selectors import Selector
from app.recommender.core.targets import VpaKey

Labels = Mapping[str, str]


class Selections:
    """VPAs by the labels they select, within each namespace."""

    def __init__(self) -> None:
        self._selectors: defaultdict[str, dict[VpaKey, Selector]] = defaultdict(dict)
        self._labels: defaultdict[str, dict[str, Labels]] = defaultdict(dict)  # by text
        self._found: dict[tuple[str, str], dict[VpaKey, None]] = {}  # by namespace and text

    def put(self, vpa: VpaKey, selector: Selector) -> None:
        """Note what a VPA selects from now on."""
        namespace = vpa[0]
        self._selectors[namespace][vpa] = selector
        for text, labels in self._labels[namespace].items():
            if selector.matches(labels):
                self._found[namespace, text][vpa] = None
            else:
                self._found[namespace, text].pop(vpa, None)

    def drop(self, vpa: VpaKey) -> None:
        """Forget a VPA."""
        namespace = vpa[0]
        del self._selectors[namespace][vpa]
        for text in self._labels[namespace]:
            self._found[namespace, text].pop(vpa, None)

    def of(self, namespace: str, labels: Labels, text: str) -> Collection[VpaKey]:
        """Return the VPAs that select labels, of which the text is given too."""
        found = self._found.get((namespace, text))
        if found is None:
            self._labels[namespace][text] = labels
            selectors = self._selectors[namespace].items()
            found = {vpa: None for vpa, selector in selectors if selector.matches(labels)}
            self._found[namespace, text] = found
        return found
