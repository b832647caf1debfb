"""Each knob as data: range, default, how it is changed, risk and source."""
