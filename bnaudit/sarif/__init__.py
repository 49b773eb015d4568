"""The pieces of a SARIF 2.1.0 document (OASIS standard, errata 01): rules, results, what happened."""
