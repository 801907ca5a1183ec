"""From logs to durations that a person can trust: collect, parse, fit, review, accept. Runs in the CI tools image."""
