"""The page at `/`: static files of ours, which show the live views."""

from kestrelpy.http.page.route import router

__all__ = ["router"]
