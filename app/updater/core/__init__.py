"""Decide what happens to running pods, from values alone: the theory of the updater's decisions.

Words of our own: Decision, Need, Proposal, PodContext, OwnerChecks, PlanState, ActionQueue, Memory,
Proof; in the shell UpdaterState, WorkQueue, UnconfirmedCalls.

`plan(snapshot, rules, gates, memory, now, options)` gives every controlled pod exactly one
Decision: an action and a reason with a sentence, also where nothing is done. The reason of an
action is its cause, until it was carried out (`done`); `sentences` says what changes and why.
Nothing here reads a clock, calls or logs; the same arguments give the same plan.

One plan, namespace by namespace, owner by owner:
  plan       matches the pods of an owner with their VPAs (owners). What was decided before is kept
             while pod, VPA, owner and LimitRanges are the same and nothing is remembered of the pod
  assess     looks at a PodContext alone: has it a need, and if so a Proposal (in place: resize,
             after a boost: unboost, else an eviction); numbers come once per look (targets, need)
  blockers   OwnerChecks finds what blocks a proposal; the rest take slots of the owner's budget,
             ends of boosts first, then resizes, then evictions, and become an ActionQueue
  PlanState  counts what owners share: PodDisruptionBudgets, evictions left, what was learnt
After the calls `learn` (outcomes) turns what came of them into the Memory for the next plan.

State and who changes it:
  Memory     a value. `observed` forgets what is over or gone, PlanState adds what a plan saw,
             `learn` adds what calls did. It holds own evictions and resizes until the watch shows
             them, pauses after refusals, what a node refused, proofs, breakers, rollouts seen.
             What must survive a restart stands in the pod: annotations and conditions
  PlanState  lives for one plan; the only thing that changes while a plan is made
  QueueCursor  lives while a queue is walked, by the plan (as if each call succeeds) and by the
             executor (with what calls really did): both walk alike, so the plan says what happens

A workload under a VPA:  unproven -> one pod evicted (awaited) -> proven, or failed and paused
  unproven   nothing was evicted for this generation of the VPA and this template
  awaited    the replacement is not seen yet; no other pod of the workload is evicted
  proven     a replacement had the expected requests: as many may go as the budget allows
  failed     it came back without the change; the pause doubles, then one pod goes again
A breaker does the same for a namespace once too many of its evictions did not help, and another
one for the whole cluster once that is so in several namespaces.

A boosted pod:  boosted -> due -> returning (a second annotation) -> both annotations removed
  It is due so long after Ready, in every mode, as the VPA says now (`boost_ends`). Until then
  the decision says when that is, and the loop `boosts` looks again at that time (`next_look`).

Must never happen:
- A pod has two decisions, or an owner two queues, in one plan.
- More pods of an owner are down because of the updater than its tolerance allows, but for one pod
  of an owner too small for any. A slot is taken before the call and given back if it fails.
- A pod is evicted: in a mode that may not evict; because the end of its boost fails; while an
  eviction requirement is unmet; under a second PodDisruptionBudget, one just changed, or a full
  one (unless the pod is broken); while the Lease of the webhook is stale; and once it has a node,
  while its owner is unknown, too small, or rolls out (unless the pod ran out of memory).
- A paused pod is evicted or resized, but to end its boost.
- A pod is evicted that is the last ready one of its role, if its replacement would have another.
- A pod is evicted because a resize was refused for what its replacement would meet as well: a
  quota, a LimitRange, a missing right.
- A resize that cannot work is repeated for ever, or asks for room on a node for ever.
- An annotation or a clock of others makes a decision wait beyond now by more than a minute's skew.
"""
