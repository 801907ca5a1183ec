"""What a finished run tells people, CI systems and the next plan; each report is one value or text."""
