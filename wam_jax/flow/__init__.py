"""Flow matching: schedules, clocks, noising, targets and training weights."""
