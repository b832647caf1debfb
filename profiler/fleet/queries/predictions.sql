-- What the model predicts for each class: the time that all its pulls take together under each
-- setting (`present`: those in force), and the largest amount of data at risk.
SELECT
  class_key,
  setting,
  COUNT(*) AS pulls,
  SUM(return_s) AS return_s,
  MAX(peak_bytes) AS peak_bytes
FROM predictions
GROUP BY class_key, setting
ORDER BY class_key, setting
