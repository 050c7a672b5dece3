"""Postgres backend."""
