"""Comparison of runs from their folders: tables for the terminal, and a report as a web page."""
