"""Which exact account of what happened reproduces the scores that production returned.

`scoring` maps what the model returns to the form of the observed scores, `replaying` makes the forwards, the files of
`hypotheses` propose what may have happened, `search` tries them, `verdict` says what the residuals prove.
"""
