"""The trend verdict: does a long run leave anything behind, per request and per abort?"""
