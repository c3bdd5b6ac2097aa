"""The updater: brings running pods to their recommendation, by resize or by eviction.

Theory of operation. All decisions are made in `core`, which is pure: a snapshot of the cluster, a
memory and a moment go in, a plan comes out, in which each pod under a VPA has one decision with
its reason. The files beside `core` gather, carry out and report; they decide nothing.

Threads (`process`), each a loop that is called when it is due:

    rounds          plan about everything, carry it out, report it       `updater`
    boosts          plan about pods whose boost may be over, end those   `boosts`
    unconfirmed     find out what came of calls without an answer        `calls`
    events          write queued events                                  `notifications`
    summaries       write queued annotations of VPAs                     `notifications`
    owners-refresh  look owners up again before what is known expires    `app.kube`
    upkeep          notice when watches are stale                        `process`
    election        hold the Lease                                       `process`

Rounds end boosts too, of pods that the loop `boosts` did not come to. Watches have threads of their
own (`app.kube`). Rounds and boosts hand a batch to the one executor, which makes its calls with
some workers that live as long as the batch.

State, and who changes it:

    snapshot        the watches; replaced as a whole, never changed
    memory          rounds replace it by that of their plan; each call, each useless trial and what
                    the loop `unconfirmed` finds out add an update. Both meet in `state`, where
                    updates since a plan began are applied on top of that plan's memory. Nothing of
                    it outlives the process but what stands in the annotations of pods.
    claims          the executor, around each call: one call at a time for a pod, and one that
                    takes a slot of the budget for an owner (`state`)
    tokens          the executor: two buckets for evictions, two for resizes (`work_queue`)
    unconfirmed     the executor adds, the loop of that name removes (`calls`)
    boost entries   watches add, the loop `boosts` takes and puts back (`boosts`)
    decisions       rounds replace them at their end; calls add last actions (`report`)

A step of a plan becomes a call only if, right before it: this process may act (it leads, its
watches are not stale and it is not stopping) and its Lease lasts as long as the call may; the
round is not over; there is a token; nothing pauses it, unless it ends a boost; pod and VPA are
those that were planned upon; no other loop disturbed the pod or its owner since then; the owner
still has room; and, for an eviction, the webhook's Lease is fresh.

Must never happen:

    - Two calls act on one pod at the same time, or two that take a slot on pods of one owner.
    - A slot is given back while it is not known that the pod is where it was: a call without an
      answer counts as done for the budget, and as failed for when to try again.
    - An action is carried out upon a plan from before another loop disturbed the same owner.
    - A failure in one namespace, in reporting, or in a look at one pod stops the others.
    - The memory of an earlier term is trusted: after another process led, only the breakers remain,
      and until when a workload whose proof failed has to wait.
    - A dry run writes anything, or needs the Lease.
"""
