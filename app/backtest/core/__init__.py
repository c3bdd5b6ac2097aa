"""What would have happened under other settings: the theory of back-tests.

A walk goes through a recording step by step. What the recommender would have known stands in its
own tables and histograms, one table for each setting; from these its own estimators make what it
would have recommended, every hour. Sizing and the updater's rules make requests and limits of that.

State
  recorded_fleet.Fleet      the containers of a recording, by workload, pod and container
  blocks.Block              an hour of a recording as whole millicores and bytes, step by step
  learning.Learning         what the recommender knows under each setting, and what it recommends
  sizes.Sizer               requests and limits of pods for targets
  walk.Walk                 requests and limits in force, and since when
  scores.Tally              what was reserved, used and missing, by day, setting and workload
  past_hours.HourlyWalk     what was used and requested, by hour, setting and workload

Order within a step: pods come and go, kills, memory, scores, updates after kills; at the end of an
hour CPU is learned, everything is estimated, and the updater's rules decide about every pod.

Must never happen:
  - Anything before a time depends on what was recorded after it.
  - A number is recommended that the recommender would not have recommended at that hour, unless a
    container was killed under the setting that was not killed in the recording.
  - An amount is scored against a request that was decided with knowledge of it.
  - A number is shown of a history that is too short for it.
"""
