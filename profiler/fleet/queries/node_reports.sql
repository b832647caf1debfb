-- One row for each record of pulls, as the gate of a roll-out reads it: times are means over them.
-- Records of days are no votes. The parameter is the first day, such as '2026-11-01'.
SELECT
  node,
  start,
  rollout,
  stage,
  arm,
  pulls,
  failed_pulls,
  CASE WHEN pulls > failed_pulls THEN return_ns / 1e9 / (pulls - failed_pulls) END AS return_s,
  CASE WHEN pulls > failed_pulls THEN durable_ns / 1e9 / (pulls - failed_pulls) END AS durable_s,
  peak_at_risk_bytes,
  COALESCE(oom_kills, 0) AS oom_kills,
  memory_psi_full_us / 1e6 AS memory_psi_full_s,
  verify,
  class_key
FROM records
WHERE source = 'pull' AND dt >= ?
ORDER BY node, start
