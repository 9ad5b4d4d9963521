"""Transfers of items from one queue to another."""
