"""What the recommender decides, from values and arrays alone: the theory of its model.

`model.Model` is told what happens and asked what to publish and what to store. It is the only
thing that the rest of the process holds; one thread at a time calls it, and it has no clock.

State
  histograms.Bank           one histogram a row, of cpu and of memory; weights relative to the row's
                            own reference time
  tables.RowTable           one row for each container of each VPA: both histograms, how much
                            history there is, its policy, the estimate last compared, when it
                            was stored
  tables.VpaTable           one line a VPA: what makes it worth another look
  samples.SampleRoutes      instances (a container of a pod: its newest sample and kill) and streams
                            (from an instance to a row: the running memory interval and its peak)
  membership.Membership     which VPAs and pods there are, which pods each VPA claims, and therefore
                            which instance feeds which rows
  membership.DetachedRows   rows of VPAs that went or got another target
  oom.OomKills              kills that were counted, and kills held until history has been read
  history.RowCheckpoints    names of checkpoints, and checkpoints that shall be deleted
  status_selector           on what the published numbers rest; which VPA comes first in an overlap
  skipped.SkippedObjects    objects at which our own code failed

Who changes it
  `vpa_seen`, `pod_seen` and their opposites change the membership at that moment; so a pod that
  changes its labels feeds other rows from its next sample on. `usage` goes through intake to rows:
  cpu samples as they are, memory as one peak for each stream and interval, which a higher one
  replaces. `killed` makes a memory peak of each kill. `restore` adds checkpoints to what was
  learned meanwhile, `learn_past` (backfill) usage of the past. `tick` and `urgent` estimate all
  rows or some (estimation), round and cap them (shaping), compare with what stands (status) and
  return what is worth a write. `checkpoints` returns the rows that have changed most. Once an hour,
  expired rows go.

From sample to status
  sample > stream > bucket of a row > percentile > margin > confidence > floor of the pod > rounding
  > caps > what is kept of the status that stands > status, if it differs enough or its turn comes

Must never happen:
  - A sample or kill counts twice for a row, or for a row that its pod did not feed at that time.
  - Stored weights change because time goes by: only references move, when samples run far ahead.
  - A row is fed by a stream whose memory interval belongs to another row.
  - Two rows of one VPA have the same container, or a row in use belongs to a VPA that is gone.
  - A checkpoint is written of a VPA whose own checkpoints are still to be read.
  - A running memory peak is in a checkpoint's histogram and in its open windows.
  - What was not learned wipes out, or in the first day lowers, an amount that stands published.
  - One bad object, or a defect of ours at it, keeps another object from being served.
  - An amount is explained by numbers other than those it was made from.
  - What was answered is asked again, unless `not_published`, `not_stored` or `not_dropped` said so.

A setting per container comes from its policy in `rules.container_rules`, gets a column of
`tables.RowTable` that `follow` fills, is heeded in estimation, intake or shaping, and told by
`explanation`. Upstream's model fills the same table in `_lay_rows`. One from an annotation goes the
way of `whole_cores`; what upstream does not have is turned off in `as_upstream`.
"""
