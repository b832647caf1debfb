-- Nodes whose pulls take far longer or shorter, per byte, than those of the class's median node.
-- Robust: the distance is in units of 1.4826 times the median absolute deviation (MAD) of the
-- logarithm, so the outliers do not widen the scale that they are measured with.
-- Parameters: fewest nodes of a class, fewest units, least factor between node and median.
WITH nodes AS (
  SELECT
    class_key,
    node,
    LN(SUM(CAST(return_ns AS DOUBLE)) / SUM(CAST(bytes AS DOUBLE))) AS x
  FROM records
  WHERE bytes > 0 AND return_ns > 0
  GROUP BY class_key, node
),
ranked AS (
  SELECT
    class_key,
    node,
    x,
    ROW_NUMBER() OVER (PARTITION BY class_key ORDER BY x, node) AS place,
    COUNT(*) OVER (PARTITION BY class_key) AS nodes
  FROM nodes
),
medians AS (
  SELECT class_key, AVG(x) AS middle
  FROM ranked
  WHERE 2 * place IN (nodes, nodes + 1, nodes + 2)
  GROUP BY class_key
),
distances AS (
  SELECT
    ranked.class_key,
    ranked.node,
    ranked.nodes,
    ranked.x - medians.middle AS distance,
    ROW_NUMBER() OVER (
      PARTITION BY ranked.class_key
      ORDER BY ABS(ranked.x - medians.middle), ranked.node
    ) AS place
  FROM ranked
  JOIN medians ON ranked.class_key = medians.class_key
),
scales AS (
  SELECT class_key, 1.4826 * AVG(ABS(distance)) AS scale
  FROM distances
  WHERE 2 * place IN (nodes, nodes + 1, nodes + 2)
  GROUP BY class_key
)
SELECT
  distances.class_key,
  distances.node,
  EXP(distances.distance) AS times_the_median,
  CASE WHEN scales.scale > 0 THEN distances.distance / scales.scale ELSE NULL END AS units
FROM distances
JOIN scales ON distances.class_key = scales.class_key
WHERE
  distances.nodes >= CAST(? AS BIGINT)
  AND ABS(distances.distance) > CAST(? AS DOUBLE) * scales.scale
  AND ABS(distances.distance) > LN(CAST(? AS DOUBLE))
ORDER BY ABS(distances.distance) DESC, distances.node
