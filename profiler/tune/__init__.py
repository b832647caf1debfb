"""Transfer tuning: which of boto3's transfer settings pulls a given object fastest, measured."""
