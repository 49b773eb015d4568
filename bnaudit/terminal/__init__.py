"""The sections of the report in a terminal: verdicts, ledger, findings, summary."""
