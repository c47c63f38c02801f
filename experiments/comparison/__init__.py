"""Comparing runs by what is in their folders: tables for the terminal, and a report as a web page."""
