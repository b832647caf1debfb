-- The merged histograms of each class: exact, because buckets are added. `bucket` is an index of
-- the log-linear buckets that the reference describes.
SELECT class_key, name, bucket, SUM(calls) AS calls
FROM histograms
GROUP BY class_key, name, bucket
ORDER BY class_key, name, bucket
