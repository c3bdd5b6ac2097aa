"""What usage teaches: histograms, estimates, checkpoints.

Strategy: `models` names the face of a model; `model.py` shows how to use ours. Samples flow
from `usage` over `intake` into `rows` of histograms (`bank`, `grid`, `decay`) and memory
`windows`; who feeds what is the matter of `roster`. A tick goes from `appraisal` (`estimators`)
over `entries` (`shaping`, `policy`) to `announcing` (`status`); `history` writes and reads
`checkpoints`; `upkeep` forgets. `rules` names every knob; `upstream` is another model.
"""
