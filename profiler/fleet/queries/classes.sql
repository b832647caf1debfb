-- One row for each class: its nodes, their pulls, and how many nodes have writers that wait, by main
-- cause. The parameter is the least share of the time of the writers that waits in write calls take,
-- and of the time with bursts in which writers are throttled on a node that is watched.
WITH limits AS (
  SELECT CAST(? AS DOUBLE) AS share
),
nodes AS (
  SELECT
    class_key,
    node,
    SUM(pulls) AS pulls,
    SUM(failed_pulls) AS failed_pulls,
    SUM(CAST(bytes AS DOUBLE)) AS bytes,
    SUM(CAST(return_ns AS DOUBLE)) AS return_ns,
    SUM(CAST(throttling_ns AS DOUBLE)) AS throttling_ns,
    SUM(CAST(device_ns AS DOUBLE)) AS device_ns,
    SUM(CAST(sleeping_ns + queued_ns AS DOUBLE)) AS other_ns,
    SUM(CAST(writer_ns AS DOUBLE)) AS writer_ns,
    MAX(peak_at_risk_bytes) AS peak_at_risk_bytes,
    SUM(COALESCE(oom_kills, 0)) AS oom_kills,
    MAX(CASE WHEN verify IN ('changed', 'not applied') THEN 1 ELSE 0 END) AS not_in_force,
    MAX(CASE WHEN source = 'day' THEN 1 ELSE 0 END) AS is_watched,
    SUM(CAST(COALESCE(watched_ns, 0) AS DOUBLE)) AS watched_ns,
    SUM(CAST(COALESCE(burst_ns, 0) AS DOUBLE)) AS burst_ns,
    SUM(CAST(COALESCE(stalled_ns, 0) AS DOUBLE)) AS stalled_ns
  FROM records
  GROUP BY class_key, node
),
waits AS (
  SELECT
    nodes.*,
    CASE
      WHEN writer_ns <= 0 OR throttling_ns + device_ns + other_ns < limits.share * writer_ns
        THEN CASE
          WHEN stalled_ns > 0 AND stalled_ns >= limits.share * burst_ns THEN 'throttling'
          ELSE 'none'
        END
      WHEN throttling_ns >= device_ns AND throttling_ns >= other_ns THEN 'throttling'
      WHEN device_ns >= other_ns THEN 'device'
      ELSE 'other'
    END AS cause
  FROM nodes
  CROSS JOIN limits
)
SELECT
  class_key,
  COUNT(*) AS nodes,
  SUM(pulls) AS pulls,
  SUM(failed_pulls) AS failed_pulls,
  SUM(bytes) AS bytes,
  SUM(return_ns) / 1e9 AS return_s,
  SUM(CASE WHEN cause = 'throttling' THEN 1 ELSE 0 END) AS throttled_nodes,
  SUM(CASE WHEN cause = 'device' THEN 1 ELSE 0 END) AS device_nodes,
  SUM(CASE WHEN cause = 'other' THEN 1 ELSE 0 END) AS other_nodes,
  MAX(peak_at_risk_bytes) AS peak_at_risk_bytes,
  SUM(oom_kills) AS oom_kills,
  SUM(not_in_force) AS nodes_not_in_force,
  SUM(is_watched) AS watched_nodes,
  SUM(watched_ns) / 1e9 AS watched_s,
  SUM(burst_ns) / 1e9 AS burst_s,
  SUM(stalled_ns) / 1e9 AS stalled_s
FROM waits
GROUP BY class_key
ORDER BY class_key
