"""Whether observed scores look like one more draw of a cause, or like something else.

Every statistic is held against the same statistic of each draw among the others: no distribution is assumed, only that
the observed scores, if the cause is the right one, could change places with any draw.
"""
