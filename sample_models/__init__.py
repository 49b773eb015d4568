"""Small models of handwritten digits: healthy in every format, one file per defect, and controls."""
